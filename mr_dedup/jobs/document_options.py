"""Options of what reads documents: how to read them, which features they have."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mr_dedup.formats.documents.files import FORMATS
from mr_dedup.formats.documents.options import MAX_RECORD_BYTES, ReadOptions

if TYPE_CHECKING:
    from mr_dedup.features.options import FeatureOptions

OPTION_OF_PARAMETER = {
    "id_names": "--id-field",
    "text_name": "--text-field",
    "html_name": "--html-field",
    "html": "--html",
    "max_record_bytes": "--max-record-size",
    "features": "--features",
    "unit": "--features",
    "length": "--features",
    "weighting": "--weights",
    "stop_words": "--stop-words",
    "stem": "--stem",
    "segment": "--segment",
    "normalize": "--normalize",
}
"""Which option sets a parameter of ReadOptions or FeatureOptions, for errors that name one."""

Add = Callable[..., Any]
"""What takes the arguments of ``argparse.ArgumentParser.add_argument``."""


def add_reading_options(add: Add, size: Callable[[str], int] = int) -> None:
    """Declare by ``add`` how documents are read; ``size`` understands a number of bytes."""
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
    add("--max-record-size", type=size, metavar="SIZE", default=MAX_RECORD_BYTES,
        help="reject records that are larger (default 64MB)")  # fmt: skip
    add("--strict", action="store_true",
        help="end with an error at the first record that cannot be read")  # fmt: skip


def add_feature_options(add: Add, *, weights: bool = True, features: str = "words:1") -> None:
    """Declare by ``add`` which features a text has, and unless they do not matter their weights.

    ``features`` are the default.
    """
    add("--features", default=features, metavar="words:N|characters:N|auto",
        help="shingles of so many words or characters; or auto, by script, of 3 words or 5 "
        f"characters (default {features})")  # fmt: skip
    if weights:
        _add_weights(add)
    add("--stop-words", metavar="LANGUAGE",
        help="ignore the stop words of a language, such as en (default: none)")  # fmt: skip
    add("--stem", metavar="LANGUAGE",
        help="replace words by their stems (Snowball), such as english (default: no stemming)"
        )  # fmt: skip
    add("--segment", metavar="LANGUAGE",
        help="segment Chinese (zh) into words (default: into characters)")  # fmt: skip

    add("--normalize", choices=("nfkc", "nfc", "none"), default="nfkc",
        help="Unicode normalisation of texts: nfkc (NFKC with case folding, without invisible "
        "characters), nfc or none (default nfkc)")  # fmt: skip


def _add_weights(add: Add) -> None:
    # no choices, as importing them would import numba, which takes half a second
    add("--weights", default="log-tf", metavar="WEIGHTING",
        help="what a feature that occurs t times weighs: binary, 1; tf, t; log-tf, 1 + ln t; "
        "tf-idf and log-tf-idf, these times its rarity (default log-tf)")  # fmt: skip
    add("--idf", metavar="FILE",
        help="in how many documents each feature occurs, as mr-dedup idf writes it: needed by "
        "--weights that end in -idf")  # fmt: skip


def read_options(
    options: argparse.Namespace, fields: Sequence[str] = (), keep_records: bool = False
) -> ReadOptions:
    """Return the options of reading documents; ValueError for values out of range."""
    return ReadOptions(
        id_names=options.id_field or ReadOptions.id_names,
        text_name=options.text_field,
        html_name=options.html_field,
        html=options.html,
        fields=fields,
        keep_records=keep_records,
        max_record_bytes=options.max_record_size,
        strict=options.strict,
    )


def feature_options(options: argparse.Namespace) -> FeatureOptions:
    """Return which features the options ask for; ValueError if there are no such.

    Those declared without weights ask for binary ones.
    """
    from mr_dedup.features.options import FeatureOptions

    weights, idf = getattr(options, "weights", "binary"), getattr(options, "idf", None)
    chosen = dataclasses.replace(
        FeatureOptions.parse(options.features, weights),
        stop_words=options.stop_words,
        stem=options.stem,
        segment=options.segment,
        normalize=options.normalize,
    )
    if chosen.uses_idf and idf is None:
        raise ValueError(f"--weights {weights}: needs --idf, a file of mr-dedup idf")
    if idf is not None and not chosen.uses_idf:
        raise ValueError(f"--idf: not used by --weights {weights}")
    return chosen


def reading_record(options: argparse.Namespace) -> dict[str, Any]:
    """Return how documents are read, by the names of options, as JSON types."""
    names = ("id_field", "text_field", "html_field", "html", "max_record_size", "format")
    return {name: getattr(options, name) for name in names}
