"""Run mr-dedup as ``python -m mr_dedup``."""

from mr_dedup.cli.main import command

command()
