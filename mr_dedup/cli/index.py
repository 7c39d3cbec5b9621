"""Keep an index of fingerprints on disk, and query it for near-duplicates in microseconds.

  create   make an index in DIR, of documents or fingerprints if FILEs are named
  add      add documents or fingerprints; with --check print their near-duplicates first
  remove   remove documents by their ids
  query    print the near-duplicates of documents or fingerprints
  compact  merge all documents into one segment, perhaps of another table design
  verify   read every byte, and report damage
  stats    print what an index contains, and its size

FILEs are documents or fingerprints, of any format. Without any, lines are read from standard input:
documents as JSON, or lines of fingerprint TAB id, or for remove ids. For each line there is one
line of output, at once, so that a crawler can use it through two pipes: the id and its
near-duplicates, separated by TABs. For a line that cannot be read it is a TAB and the reason.

A change that a line was printed for survives a loss of power. One process writes to an index; any
number query it meanwhile.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mr_dedup.cli.arguments import positive
from mr_dedup.cli.document_arguments import (
    add_feature_arguments,
    add_reading_arguments,
    check_rejected,
)
from mr_dedup.cli.remote_files import (
    add_storage_arguments,
    input_names,
    local_name,
    local_path,
    output_file,
)
from mr_dedup.cli.streams import print_message, printable
from mr_dedup.errors import MrDedupError, not_one_of, usage_errors

if TYPE_CHECKING:
    from mr_dedup.cli.index_inputs import IndexInput
    from mr_dedup.index.hamming_index import HammingIndex
    from mr_dedup.index.reader import IndexReader
    from mr_dedup.index.stats import IndexStats

EXIT_DAMAGED = 1

_ACTIONS = {
    "create": "make an index",
    "add": "add documents or fingerprints",
    "remove": "remove documents by their ids",
    "query": "print the near-duplicates of documents or fingerprints",
    "compact": "merge all documents into one segment",
    "verify": "read every byte, and report damage",
    "stats": "print what an index contains, and its size",
}
_READING = ("create", "add", "query")
_WRITING = ("create", "add", "remove", "compact")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to ``parser``."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, what in _ACTIONS.items():
        action = actions.add_parser(name, help=what, description=f"{what.capitalize()}.")
        action.add_argument(
            "folder", type=local_path, metavar="DIR", help="the directory of the index"
        )
        if name in (*_READING, "remove"):
            action.add_argument(
                "files", nargs="*", type=input_names, metavar="FILE",
                help="files of documents or fingerprints" if name != "remove"
                else "files of ids, a line each",
            )  # fmt: skip
        _ADD[name](action)
        if name in _READING:
            _add_fingerprint_files(action)
            add_storage_arguments(action)
            add_feature_arguments(action)
            _with_local_idf(action)
            add_reading_arguments(action)
        if name in ("add", "query"):
            _without_defaults(action, "features")
        if name in ("add", "remove", "query"):
            action.add_argument(
                "--no-check", action="store_true",
                help="compare blocks with their checksums at their first use, not all at the start",
            )  # fmt: skip
        if name in ("create", "add", "remove"):
            action.add_argument(
                "--relaxed", action="store_true",
                help="force changes to the disk once a second: a loss of power may undo the last",
            )  # fmt: skip


def _add_create(action: argparse.ArgumentParser) -> None:
    action.add_argument(
        "-k", type=int, default=3, help="largest distance of a query, in bits (default 3)"
    )
    action.add_argument(
        "--no-ids", action="store_true",
        help="store fingerprints alone: each is its own document, and its own id",
    )  # fmt: skip
    _add_design(action)


def _add_add(action: argparse.ArgumentParser) -> None:
    action.add_argument(
        "--check", action="store_true",
        help="print a line for each document, with its near-duplicates before it was added",
    )  # fmt: skip
    action.add_argument(
        "--only-new",
        action="store_true",
        help="add only documents without near-duplicates; with --check",
    )
    _add_output(action)


def _add_query(action: argparse.ArgumentParser) -> None:
    _add_output(action)


def _add_output(action: argparse.ArgumentParser) -> None:
    action.add_argument(
        "-k", type=int, help="largest distance of a near-duplicate (default: the index's)"
    )
    action.add_argument(
        "--limit", type=positive, metavar="N", help="print the N nearest only (default: all)"
    )
    action.add_argument("--with-distance", action="store_true", help="print near-duplicate:bits")


def _add_design(action: argparse.ArgumentParser) -> None:
    action.add_argument(
        "--design", metavar="NAME",
        help="the table design, as mr-dedup plan prints it; auto is the best for each segment's "
        "size (default: that of the index; auto for a new one)",
    )  # fmt: skip


def _add_nothing(action: argparse.ArgumentParser) -> None:
    pass


_ADD: dict[str, Callable[[argparse.ArgumentParser], None]] = {
    "create": _add_create,
    "add": _add_add,
    "remove": _add_nothing,
    "query": _add_query,
    "compact": _add_design,
    "verify": _add_nothing,
    "stats": _add_nothing,
}


def _add_fingerprint_files(action: argparse.ArgumentParser) -> None:
    from mr_dedup.formats.fingerprint_files import BYTE_ORDERS, FORMATS

    action.add_argument(
        "--fingerprint-format",
        choices=FORMATS,
        help="of fingerprints, if the file names do not show it",
    )
    action.add_argument(
        "--byte-order", choices=BYTE_ORDERS, default="big", help="of longs (default big)"
    )
    action.add_argument(
        "--rejects", type=output_file, metavar="FILE",
        help="write records that cannot be read here, with the reason",
    )  # fmt: skip
    action.add_argument(
        "--overwrite", action="store_true", help="replace the file of rejects if it exists"
    )


def _with_local_idf(action: argparse.ArgumentParser) -> None:
    """Refuse a URI for ``--idf``: an index reads that file whenever it is opened."""
    for each in action._actions:
        if each.dest == "idf":
            each.type = local_name


def _without_defaults(action: argparse.ArgumentParser, title: str) -> None:
    """Omit features that are not given from the arguments: an index has its own."""
    for group in action._action_groups:
        if group.title == title:
            group.description = "those that the index was made with; others are refused"
            for each in group._group_actions:
                each.default = argparse.SUPPRESS
                each.help = (each.help or "").partition(" (default")[0]


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    return _RUN[arguments.action](arguments)


def _create(arguments: argparse.Namespace) -> int:
    from mr_dedup.cli.index_inputs import IndexInput, features_of, given_features
    from mr_dedup.index.hamming_index import HammingIndex

    inputs = IndexInput.all_of(arguments)
    design = None if arguments.design == "auto" else arguments.design
    made_from, features = features_of(inputs, given_features(arguments), arguments)
    if inputs and not arguments.no_ids and not any(each.may_have_ids for each in inputs):
        raise MrDedupError(f"{inputs[0].name}: has no ids; give --no-ids for an index without")
    with _made_whole(arguments.folder, bool(inputs)) as folder:
        with usage_errors():
            index = HammingIndex.create(
                folder, k=arguments.k, named=not arguments.no_ids, features=features,
                made_from=made_from, design=design, relaxed=arguments.relaxed,
            )  # fmt: skip
        with index:
            if inputs:
                _add_files(index, inputs, arguments)
    return 0


@contextlib.contextmanager
def _made_whole(folder: Path, temporary: bool) -> Iterator[Path]:
    """Yield the path to make a directory at, if ``temporary`` beside ``folder``.

    A temporary one is renamed to ``folder`` when the block ends, and removed if it raises.
    """
    from mr_dedup.files.folders import Folder
    from mr_dedup.files.output_folders import require_parent
    from mr_dedup.files.temporary import folder_beside

    if not temporary:
        yield folder
        return
    require_parent(folder)
    if folder.is_dir() and any(folder.iterdir()):
        raise MrDedupError(f"{folder}: contains files already; name another directory")
    with folder_beside(folder) as made:
        try:
            yield made / "index"
        except MrDedupError as error:
            if str(made) not in str(error):
                raise
            # the message names the user's directory, not the temporary one
            reason = str(error).replace(str(made / "index"), str(folder))
            raise MrDedupError(reason) from error
        (made / "index").rename(folder)
        with Folder(folder.absolute().parent) as parent:
            parent.force()


def _add(arguments: argparse.Namespace) -> int:
    from mr_dedup.cli.index_inputs import IndexInput
    from mr_dedup.cli.index_lines import respond_to_files, respond_to_lines

    if arguments.only_new and not arguments.check:
        raise MrDedupError("--only-new: needs --check, which finds near-duplicates")
    with _opened(arguments) as index:
        _require_distance(index, arguments.k)
        inputs = IndexInput.all_of(arguments)
        if not inputs:
            return respond_to_lines(index, arguments)
        if arguments.check:
            return respond_to_files(index, inputs, arguments)
        _add_files(index, inputs, arguments)
    return 0


def _add_files(
    index: HammingIndex, inputs: list[IndexInput], arguments: argparse.Namespace
) -> None:
    from mr_dedup.cli.index_inputs import fingerprinter_for, reported_rejects, segment_batches

    started, new, count = time.perf_counter(), 0, 0
    fingerprinter = fingerprinter_for(index, inputs, arguments)
    with reported_rejects(arguments) as rejects:
        for fingerprints, ids in segment_batches(
            inputs, index.named, fingerprinter, rejects, arguments
        ):
            count += len(fingerprints)
            new += index.add(fingerprints, ids)
        check_rejected(arguments, rejects.counts)
    seconds = time.perf_counter() - started
    print_message(
        f"{count:,} documents, {new:,} of them new, {len(index):,} in the index; {seconds:.1f} s"
    )


def _remove(arguments: argparse.Namespace) -> int:
    from mr_dedup.cli.index_lines import remove_lines

    with _opened(arguments) as index:
        remove_lines(index, arguments)
    return 0


def _query(arguments: argparse.Namespace) -> int:
    from mr_dedup.cli.index_inputs import IndexInput
    from mr_dedup.cli.index_lines import respond_to_files, respond_to_lines
    from mr_dedup.index.reader import IndexReader

    with IndexReader.open(arguments.folder, check=not arguments.no_check) as index:
        _require_distance(index, arguments.k)
        inputs = IndexInput.all_of(arguments)
        return (
            respond_to_files(index, inputs, arguments)
            if inputs
            else respond_to_lines(index, arguments)
        )


def _require_distance(index: HammingIndex | IndexReader, k: int | None) -> None:
    """Raise MrDedupError for a distance that the index was not made for."""

    if k is not None and not 0 <= k <= index.k:
        raise MrDedupError(f"k must be from 0 to {index.k}, for which the index was made, not {k}")


def _compact(arguments: argparse.Namespace) -> int:
    from mr_dedup.hamming.design import designs_for
    from mr_dedup.index.hamming_index import HammingIndex

    started = time.perf_counter()
    with HammingIndex.open(arguments.folder, background=False) as index:
        _report_cut(index)
        names = ["auto", *designs_for(index.k)]
        if arguments.design not in (None, *names):
            raise MrDedupError(f"--design: must be {not_one_of(arguments.design, names)}")
        index.compact(arguments.design)
        stats = index.stats()
    print_message(
        f"{stats.documents:,} documents in {stats.disk_bytes:,} bytes; "
        f"{time.perf_counter() - started:.1f} s"
    )
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    from mr_dedup.index.integrity import verify

    damages = list(verify(arguments.folder))
    for damage in damages:
        print(f"damaged: {printable(str(damage))}")
    if not damages:
        print(f"{printable(str(arguments.folder))}: sound")
    return EXIT_DAMAGED if damages else 0


def _stats(arguments: argparse.Namespace) -> int:
    from mr_dedup.index.reader import IndexReader

    with IndexReader.open(arguments.folder, check=False) as reader:
        print("\n".join(_stats_lines(reader.stats(), str(arguments.folder))))
    return 0


def _stats_lines(stats: IndexStats, name: str) -> list[str]:
    rows = {
        "documents": f"{stats.documents:,}",
        "ids": "text" if stats.named else "none: each fingerprint is its own",
        "k": f"{stats.k}",
        "made from": stats.features or "not known",
        "on disk": f"{stats.disk_bytes:,} bytes, "
        f"{stats.disk_bytes / max(1, stats.documents):.1f} a document",
        "in the log": f"{stats.memory_documents:,} documents, {stats.log_bytes:,} bytes",
        "segments": f"{len(stats.segments)}",
    }
    width = max(map(len, rows))
    lines = [printable(name), *(f"  {name:{width}}  {value}" for name, value in rows.items())]
    lines += [
        f"    {each.file}  {each.documents:,} documents, {each.dead:,} of them removed, "
        f"{each.bytes:,} bytes, {each.design}"
        for each in stats.segments
    ]
    return lines


def _opened(arguments: argparse.Namespace) -> HammingIndex:
    from mr_dedup.index.hamming_index import HammingIndex

    index = HammingIndex.open(
        arguments.folder, relaxed=arguments.relaxed, check=not arguments.no_check
    )
    _report_cut(index)
    return index


def _report_cut(index: HammingIndex) -> None:
    if index.cut_bytes:
        print_message(
            f"cut {index.cut_bytes:,} bytes of incomplete, unacknowledged changes off the log"
        )


_RUN: dict[str, Callable[[argparse.Namespace], int]] = {
    "create": _create,
    "add": _add,
    "remove": _remove,
    "query": _query,
    "compact": _compact,
    "verify": _verify,
    "stats": _stats,
}
