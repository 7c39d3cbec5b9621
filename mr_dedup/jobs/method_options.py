"""The option that names methods, as commands and jobs understand it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mr_dedup.features.document_frequencies import DocumentFrequencies
    from mr_dedup.signatures.protocol import SignatureMethod

SIMHASH = "simhash"
"""The method that is not by exact keys: fingerprints within some bits of one another."""


def parsed_methods(
    names: Sequence[str],
    frequencies: DocumentFrequencies | None,
    normalize: str = "nfkc",
    similarity: float | None = None,
    shingles: str | None = None,
) -> list[SignatureMethod]:
    """Return the methods of ``names``, each once; as ``parse_method``.

    ``normalize`` and ``shingles`` are defaults for methods whose names do not state them.
    """
    from mr_dedup.signatures.methods import METHODS, parse_method

    for name in names:
        title = name.partition(":")[0]
        if title not in METHODS:
            raise ValueError(f"method {title!r} is not one of {SIMHASH}, {', '.join(METHODS)}")
    parsed = [parse_method(name, frequencies, normalize, similarity, shingles) for name in names]
    return list({method.name: method for method in parsed}.values())


def keyword_frequencies(options: argparse.Namespace) -> DocumentFrequencies | None:
    """Return what keywords weigh by; None if no file is named."""
    if options.keyword_idf is None:
        return None
    from mr_dedup.features.document_frequencies import DocumentFrequencies

    return DocumentFrequencies.read(Path(options.keyword_idf))


def simhash_distance(name: str) -> int | None:
    """Return k of ``simhash`` or ``simhash:k=K``, -1 if it is not given; None of other methods.

    Raises ValueError for other parameters.
    """
    title, colon, rest = name.partition(":")
    if title != SIMHASH:
        return None
    if not colon:
        return -1
    key, _, value = rest.partition("=")
    if key != "k" or not (value.isascii() and value.isdecimal()):
        raise ValueError(f"method {name!r}: simhash has one parameter, as in simhash:k=3")
    return int(value)
