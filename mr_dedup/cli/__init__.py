"""The mr-dedup command: one file a subcommand."""
