"""Tables of scores and of paired differences, and the gates beside them."""
