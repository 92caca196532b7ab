"""Read datasets from files, archives and dataset libraries; write image stores and dataset cards."""
