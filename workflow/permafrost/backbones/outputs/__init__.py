"""What a backbone returns: one vector per image, and the maps of its layers."""
