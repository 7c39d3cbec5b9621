"""Arguments of the commands that read documents: how to read them, which features they have."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mr_dedup.cli.arguments import byte_size
from mr_dedup.cli.on_cluster import is_uri
from mr_dedup.errors import MrDedupError
from mr_dedup.formats.documents.rejects import MAX_REJECTED, ReadCounts

if TYPE_CHECKING:
    from mr_dedup.features.document_frequencies import DocumentFrequencies
    from mr_dedup.features.options import FeatureOptions
    from mr_dedup.formats.documents.options import ReadOptions


def add_reading_arguments(parser: argparse.ArgumentParser, *, judged: bool = True) -> None:
    """Add the arguments on reading documents, as a group.

    And how many may be rejected, if that is ``judged``.
    """
    from mr_dedup.jobs.document_options import add_reading_options

    group = parser.add_argument_group("reading documents")
    add_reading_options(group.add_argument, byte_size)
    if not judged:
        return
    group.add_argument(
        "--max-rejected", type=_share, default=MAX_REJECTED, metavar="SHARE",
        help="end with an error, with the result written, if more of the records cannot be read, "
        "and more than one, or if more of the files cannot be read to their end: 0.02 or 2%%, 0 "
        "allows none (default 10%%)",
    )  # fmt: skip
    parser.set_defaults(read_counts=[])


def _share(text: str) -> float:
    """Return the share of an argument, a number up to 1 or a percentage."""
    number, percent, rest = text.partition("%")
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError:
        share = -1.0
    if rest or not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share from 0 to 1, or 0% to 100%")
    return share


def judge_reading(arguments: argparse.Namespace, counts: ReadCounts) -> None:
    """Check what a command has read, before it writes a result.

    ``counts`` has the number of files. Raises NothingReadError if all records were rejected. If too
    many were, the command ends with an error when its result is there, see ``main``.
    """
    counts.require_documents()
    arguments.read_counts.append((counts, arguments.max_rejected))


def incomplete_files(count: int) -> str:
    """Return the text on files that could not be read to their end; "" if there are none."""
    return f", files not read to the end: {count:,}" if count else ""


def read_options(
    arguments: argparse.Namespace, fields: Sequence[str] = (), keep_records: bool = False
) -> ReadOptions:
    """Return the options of reading documents; MrDedupError for values out of range."""
    from mr_dedup.jobs import document_options

    try:
        return document_options.read_options(arguments, fields, keep_records)
    except ValueError as error:
        parameters, colon, reason = str(error).partition(": ")
        raise _usage_error(parameters.split(", "), colon + reason) from error


def add_feature_arguments(
    parser: argparse.ArgumentParser, *, weights: bool = True, features: str = "words:1"
) -> None:
    """Add the arguments on the features of texts, as a group.

    With their weights if ``weights``; ``features`` are the default.
    """
    from mr_dedup.jobs.document_options import add_feature_options

    group = parser.add_argument_group(
        "features", "fingerprints can be compared only if made with the same"
    )
    add_feature_options(group.add_argument, weights=weights, features=features)


def feature_options(arguments: argparse.Namespace) -> FeatureOptions:
    """Return which features the arguments ask for; MrDedupError if there are no such."""
    from mr_dedup.jobs import document_options

    try:
        return document_options.feature_options(arguments)
    except ValueError as error:
        parameter, space, reason = str(error).partition(" ")
        raise _usage_error([parameter], space + reason) from error


def document_frequencies(arguments: argparse.Namespace) -> DocumentFrequencies | None:
    """Return the document frequencies that the arguments name; None if they name none.

    Raises MrDedupError for those that cannot be read, or are of other features.
    """
    from mr_dedup.jobs.frequencies import read_frequencies

    if arguments.idf and is_uri(arguments.idf):
        raise MrDedupError(f"--idf {arguments.idf}: expected a file here, which goes with the job")
    # usage errors come first
    features = feature_options(arguments)
    return read_frequencies(arguments.idf, features)


def described_features(arguments: argparse.Namespace) -> str:
    """Return what fingerprints are made from: they can be compared only if it is the same."""
    from mr_dedup.features.document_frequencies import feature_description

    return feature_description(feature_options(arguments), document_frequencies(arguments))


def checked_idf(arguments: argparse.Namespace) -> str | None:
    """Return the file of document frequencies, None if none is named.

    They are to have been read before. Raises MrDedupError if the result would replace them.
    """

    if arguments.idf is None:
        return None
    out: Path | str | None = arguments.out
    if isinstance(out, Path) and out.exists() and out.samefile(arguments.idf):
        raise MrDedupError(f"{out}: is read as well; choose another name for the result")
    return str(arguments.idf)


def _usage_error(parameters: Sequence[str], reason: str) -> Exception:
    """Return the error of the library, in which parameters are called by their options."""
    from mr_dedup.jobs.document_options import OPTION_OF_PARAMETER

    names = [OPTION_OF_PARAMETER.get(name, name) for name in parameters]
    return MrDedupError(", ".join(dict.fromkeys(names)) + reason)
