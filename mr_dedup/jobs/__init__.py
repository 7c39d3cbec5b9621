"""Jobs: map and reduce steps over Arrow tables, one job a module."""
