"""Small datasets on disk, as a user has them."""
