"""Run a command whose arguments are parsed."""

from __future__ import annotations

import argparse
from typing import Any

from mr_dedup.cli.streams import print_warning


def call(arguments: argparse.Namespace) -> Any:
    """Run a command, and check how many records it rejected; return what it returns: an exit code.

    Raises:
        MrDedupError: As the command does; if it rejected more records than it may.
    """
    from mr_dedup.cli.rejects import refuse_shared_rejects
    from mr_dedup.cli.remote_files import local_files

    refuse_shared_rejects(arguments)
    with local_files(arguments):
        result = arguments.run(arguments)
    read_counts = getattr(arguments, "read_counts", ())
    for counts, _ in read_counts:
        for warning in counts.warnings():
            print_warning(warning)
    for counts, max_rejected in read_counts:
        counts.require_few_rejected(max_rejected)
    return result
