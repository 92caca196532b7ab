"""Tables of scores and of paired differences, with warnings about them."""
