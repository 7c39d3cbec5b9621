"""Arguments of the commands that read documents: how to read them, which features they have."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mr_dedup.cli.arguments import byte_size
from mr_dedup.cli.remote_files import input_name
from mr_dedup.errors import MrDedupError
from mr_dedup.features.foldings import FOLDINGS, checked_normalization
from mr_dedup.files.inputs import require_not_read
from mr_dedup.formats.documents.files import FORMATS
from mr_dedup.formats.documents.options import MAX_PAGE_SECONDS, MAX_RECORD_BYTES, ReadOptions
from mr_dedup.formats.documents.rejects import MAX_REJECTED, ReadCounts

if TYPE_CHECKING:
    from mr_dedup.features.document_frequencies import DocumentFrequencies
    from mr_dedup.features.options import FeatureOptions

OPTION_OF_PARAMETER = {
    "id_names": "--id-field",
    "text_name": "--text-field",
    "html_name": "--html-field",
    "html": "--html",
    "encoding": "--encoding",
    "max_record_bytes": "--max-record-size",
    "max_page_seconds": "--max-page-seconds",
    "features": "--features",
    "unit": "--features",
    "length": "--features",
    "weighting": "--weights",
    "stop_words": "--stop-words",
    "stem": "--stem",
    "segment": "--segment",
    "normalize": "--normalize",
    "symbols": "--symbols",
}
"""Which option sets a parameter of ReadOptions or FeatureOptions, for errors that name one."""


def add_reading_arguments(parser: argparse.ArgumentParser, *, judged: bool = True) -> None:
    """Add the arguments on reading documents, as a group.

    And how many may be rejected, if that is ``judged``.
    """
    group = parser.add_argument_group("reading documents")
    add = group.add_argument
    add("--id-field", action="append", metavar="NAME",
        help="the field that is a document's id; of several, the first that a record has "
        "(default: id, then url)")  # fmt: skip
    add("--text-field", default="text", metavar="NAME",
        help="the field that is its text (default text)")  # fmt: skip
    add("--html-field", default="html", metavar="NAME",
        help="the field that is its HTML, read where there is no text (default html)")  # fmt: skip
    add("--html", choices=("main", "page"), default="main",
        help="take the main content of HTML, or all of it (default main)")  # fmt: skip
    add("--format", choices=FORMATS, help="of all files, if names do not show it")
    add("--encoding", metavar="NAME",
        help="the encoding of text and JSON lines, such as euc-kr or utf-16 (default: of text "
        "and HTML detected, of JSON lines UTF-8, or what a byte order mark says)")  # fmt: skip
    add("--max-record-size", type=byte_size, metavar="SIZE", default=MAX_RECORD_BYTES,
        help="reject records that are larger (default 64MB)")  # fmt: skip
    add("--max-page-seconds", type=float, metavar="SECONDS", default=MAX_PAGE_SECONDS,
        help="reject pages whose HTML takes more processor time to parse: so long for each MB, "
        f"and an eighth of it for any page (default {MAX_PAGE_SECONDS:g})")  # fmt: skip
    add("--strict", action="store_true",
        help="end with an error at the first record that cannot be read")  # fmt: skip
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


def check_rejected(
    arguments: argparse.Namespace, counts: ReadCounts, known: Mapping[str, Any] | None = None
) -> None:
    """Check what a command has read, before it writes a result.

    ``counts`` has the number of files; what rejects do not say is in ``known``, a summary or the
    counters of a job. Raises NothingReadError if all records were rejected. If too many were, the
    command ends with an error when its result is there, see ``main``.
    """
    from mr_dedup.jobs.reading import EMPTY, UNUSABLE_IDS

    counts.require_documents()
    if known is not None:
        counts.empty, counts.unusable_ids = known.get(EMPTY, 0), known.get(UNUSABLE_IDS, 0)
    arguments.read_counts.append((counts, arguments.max_rejected))


def reading_lines(
    described: str, counts: Mapping[str, Any], text_bytes: int | None = None
) -> Iterator[str]:
    """Yield lines that say what was read of the inputs that are ``described``."""
    from mr_dedup.cli.rejects import skipped_lines

    said = f"{described}, documents: {counts['documents_read']:,}"
    if text_bytes is not None:
        said += f", text: {text_bytes / 1e6:,.1f} MB"
    said += f", rejected: {counts['rejected_records']:,}"
    if counts["documents_without_text"]:
        said += f", without text: {counts['documents_without_text']:,}"
    if counts["incomplete_files"]:
        said += f", files not read to the end: {counts['incomplete_files']:,}"
    yield said
    yield from skipped_lines(counts["skipped_records"])


def read_options(
    arguments: argparse.Namespace, fields: Sequence[str] = (), keep_records: bool = False
) -> ReadOptions:
    """Return the options of reading documents; MrDedupError for values out of range."""
    try:
        return ReadOptions(
            id_names=arguments.id_field or ReadOptions.id_names,
            text_name=arguments.text_field,
            html_name=arguments.html_field,
            html=arguments.html,
            fields=fields,
            keep_records=keep_records,
            encoding=arguments.encoding,
            max_record_bytes=arguments.max_record_size,
            max_page_seconds=arguments.max_page_seconds,
            strict=arguments.strict,
        )
    except ValueError as error:
        parameters, colon, reason = str(error).partition(": ")
        raise _usage_error(parameters.split(", "), colon + reason) from error


def add_feature_arguments(
    parser: argparse.ArgumentParser,
    *,
    weights: bool = True,
    features: str = "words:1",
    of: str = "",
    compares: bool = False,
) -> None:
    """Add the arguments on the features of texts, as a group.

    With their weights if ``weights``; ``features`` are the default. ``of`` says what they are of.
    The symbols of a command that ``compares`` texts follow from how, if none are given.
    """
    group = parser.add_argument_group(
        "features", f"{of}fingerprints can be compared only if made with the same"
    )
    add = group.add_argument
    add("--features", default=features, metavar="words:N|characters:N|auto",
        help="shingles of so many words or characters; or auto, by script, of 3 words or 5 "
        f"characters (default {features})")  # fmt: skip
    if weights:
        _add_weights(add)
    add("--stop-words", metavar="LANGUAGE",
        help="ignore the stop words of a language, such as en (default: none)")  # fmt: skip
    add("--stem", metavar="LANGUAGE",
        help="replace words by their stems (Snowball), such as english "
        "(default: no stemming)")  # fmt: skip
    add("--segment", metavar="LANGUAGE",
        help="segment Chinese (zh) into words (default: into characters)")  # fmt: skip
    add_normalize_argument(group)
    default = "auto, with --verify 1 keep" if compares else "ignore"
    add("--symbols", choices=("ignore", "auto", "keep"), default=None if compares else default,
        help="symbols that are words by themselves: keep, all of ASCII and Unicode's (mathematics, "
        "currency, emoji); auto, Unicode's, and ASCII's where they stand as operators; "
        f"ignore, none (default {default})")  # fmt: skip


def add_normalize_argument(parser: argparse._ActionsContainer) -> None:
    """Add the argument on the normalisation of texts."""
    parser.add_argument("--normalize", type=_normalization, default="nfkc", metavar="FORM",
        help="Unicode normalisation of texts before they are compared: nfkc (NFKC with case "
        "folding, without invisible characters), nfc or none; nfkc+persian, nfkc+hamza+persian and "
        f"others make one of letters that are written in two ways: {', '.join(FOLDINGS)} "
        "(default nfkc)")  # fmt: skip


def _normalization(text: str) -> str:
    """Return the name of a normalisation in its one form; ArgumentTypeError for an unknown one."""
    try:
        return checked_normalization(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix("normalize ")) from error


def _add_weights(add: Callable[..., argparse.Action]) -> None:
    # no choices, as importing them would import numba, which takes half a second
    add("--weights", default="log-tf", metavar="WEIGHTING",
        help="what a feature that occurs t times weighs: binary, 1; tf, t; log-tf, 1 + ln t; "
        "tf-idf and log-tf-idf, these times its rarity (default log-tf)")  # fmt: skip
    add("--idf", type=input_name, metavar="FILE",
        help="in how many documents each feature occurs, as mr-dedup idf writes it: needed by "
        "--weights that end in -idf")  # fmt: skip


def feature_options(arguments: argparse.Namespace) -> FeatureOptions:
    """Return which features the arguments ask for; MrDedupError if there are no such."""
    from mr_dedup.features.options import FeatureOptions

    weights, idf = getattr(arguments, "weights", "binary"), getattr(arguments, "idf", None)
    try:
        chosen = dataclasses.replace(
            FeatureOptions.parse(arguments.features, weights),
            stop_words=arguments.stop_words,
            stem=arguments.stem,
            segment=arguments.segment,
            normalize=arguments.normalize,
            symbols=arguments.symbols or "ignore",
        )
    except ValueError as error:
        parameter, space, reason = str(error).partition(" ")
        raise _usage_error([parameter], space + reason) from error
    if chosen.uses_idf and idf is None:
        raise MrDedupError(f"--weights {weights}: needs --idf, a file of mr-dedup idf")
    if idf is not None and not chosen.uses_idf:
        raise MrDedupError(f"--idf: not used by --weights {weights}")
    return chosen


def document_frequencies(arguments: argparse.Namespace) -> DocumentFrequencies | None:
    """Return the document frequencies that the arguments name; None if they name none.

    Raises MrDedupError for those that cannot be read, or are of other features.
    """
    from mr_dedup.jobs.frequencies import read_frequencies

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
    if isinstance(out, Path):
        require_not_read(out, [Path(arguments.idf)])
    return str(arguments.idf)


def _usage_error(parameters: Sequence[str], reason: str) -> Exception:
    """Return the error of the library, in which parameters are called by their options."""
    names = [OPTION_OF_PARAMETER.get(name, name) for name in parameters]
    return MrDedupError(", ".join(dict.fromkeys(names)) + reason)
