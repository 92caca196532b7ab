"""From files, archives and dataset libraries to image stores and their cards."""
