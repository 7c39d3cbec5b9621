"""Print why documents were kept or dropped by mr-dedup dedup, a sentence each.

OUT is the result of a run, a directory or a URI. If several documents have an id, each of the first
hundred gets its sentence, with its file and position. Of a document that was dropped, the sentence
names the kept document that it duplicates, and how similar their texts are; of one that was kept
though it shares a cluster with others, the most similar of up to 100 of these that were kept as
well.
"""

from __future__ import annotations

import argparse

from mr_dedup.cli.streams import print_warning, printable
from mr_dedup.errors import MrDedupError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to ``parser``."""
    add = parser.add_argument
    add("result", metavar="OUT", help="the result of mr-dedup dedup")
    add("ids", nargs="+", metavar="ID", help="the id of a document")


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    from mr_dedup.pipeline.decision import MAX_OF_ONE_ID, decisions_on
    from mr_dedup.pipeline.result_files import files_of

    files = files_of(arguments.result, arguments.scratch_settings)
    try:
        for id, found in zip(arguments.ids, decisions_on(files, arguments.ids), strict=True):
            for decision in found:
                print(printable(decision.located() if len(found) > 1 else str(decision)))
            if len(found) == MAX_OF_ONE_ID:
                print_warning(f"{printable(id)}: the first {len(found)} documents with this id")
    except KeyError as error:
        raise MrDedupError(f"{arguments.result}: has no document {error.args[0]}") from error
    return 0
