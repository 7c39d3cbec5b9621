"""The data-gen command, one module a subcommand; the only place that prints or exits."""

from data_gen.cli.command import main

__all__ = ["main"]
