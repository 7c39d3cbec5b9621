"""The methods to find near-duplicates, by name."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from mr_dedup.errors import suggestion

if TYPE_CHECKING:
    from mr_dedup.features.document_frequencies import DocumentFrequencies
    from mr_dedup.signatures.protocol import SignatureMethod

SIMHASH = "simhash"
"""The method that is not by exact keys: fingerprints within some bits of one another."""

METHODS: Mapping[str, tuple[str, str]] = {
    "exact": ("exact", "Exact"),
    "abstract": ("keyword_md5", "Abstract"),
    "keywords": ("keyword_md5", "Keywords"),
    "text-profile": ("text_profile", "TextProfile"),
    "segments": ("segments", "Segments"),
    "minhash": ("minhash", "MinHash"),
    "super-shingles": ("minhash", "SuperShingles"),
    "winnowing": ("winnowing", "Winnowing"),
}
"""The module and the class of each method, by name."""


def method_class(name: str) -> type[SignatureMethod]:
    """Return the class of a method, imported now: the kernels of all methods take 20 ms."""
    module, class_name = METHODS[name]
    found: type[SignatureMethod] = getattr(
        importlib.import_module(f"mr_dedup.signatures.{module}"), class_name
    )
    return found


def parse_method(
    text: str,
    frequencies: DocumentFrequencies | None = None,
    normalize: str = "nfkc",
    similarity: float | None = None,
    shingles: str | None = None,
    symbols: str = "ignore",
) -> SignatureMethod:
    """Return the method that a user names.

    Args:
        text: A name of METHODS, and after a colon its parameters, such as
            ``minhash:bands=16,rows=5``.
        frequencies: Document frequencies for ``keywords``, unless its weighting does without. A
            name with the digest of frequencies, as results record it, needs these frequencies.
        normalize: The normalisation of texts by methods that normalise, unless ``text`` states it.
        similarity: Choose parameters to find pairs of this similarity by, such as the bands and
            rows of ``minhash``, unless ``text`` states one of them.
        shingles: The shingles of methods with shingles, unless ``text`` states them.
        symbols: Which symbols are tokens to methods with words, unless ``text`` states that.

    Raises:
        ValueError: For an unknown method or parameter, or a value out of range, in one line.
        MrDedupError: For frequencies of other features, or if an optional package is not installed.

    Example:
        >>> parse_method("minhash", similarity=0.9).name
        'minhash:bands=9,rows=5,min_shared_keys=1,shingles=auto'
    """
    title, colon, rest = text.partition(":")
    if title not in METHODS:
        raise ValueError(
            f"method {title!r} is not one of {', '.join(METHODS)}{suggestion(title, METHODS)}"
        )
    kind = method_class(title)
    try:
        given = _parameters(rest) if colon else {}
        hints = get_type_hints(kind)
        if "normalize" in hints:
            given.setdefault("normalize", normalize)
            given.setdefault("symbols", symbols)
        if "shingles" in hints and shingles is not None:
            given.setdefault("shingles", shingles)
        values = _values(kind, given, frequencies)
        chosen = {} if similarity is None else kind.defaults_for(similarity)
        return kind(**(values if chosen.keys() & values.keys() else chosen | values))
    except ValueError as error:
        raise ValueError(f"method {text!r}: {error}") from error


def parse_methods(
    names: Sequence[str],
    frequencies: DocumentFrequencies | None,
    normalize: str = "nfkc",
    similarity: float | None = None,
    shingles: str | None = None,
    symbols: str = "ignore",
) -> list[SignatureMethod]:
    """Return the methods that a user names, each once; arguments and errors as of parse_method."""
    for name in names:
        title = name.partition(":")[0]
        if title not in METHODS:
            known = [SIMHASH, *METHODS]
            raise ValueError(
                f"method {title!r} is not one of {', '.join(known)}{suggestion(title, known)}"
            )
    parsed = [
        parse_method(name, frequencies, normalize, similarity, shingles, symbols) for name in names
    ]
    return list({method.name: method for method in parsed}.values())


def is_simhash(name: str) -> bool:
    """Return whether a user's name of a method, with its parameters, is that of simhash."""
    return name.partition(":")[0] == SIMHASH


def simhash_distance(name: str) -> int | None:
    """Return k of ``simhash:k=K``, None of ``simhash``; ValueError for other parameters.

    >>> simhash_distance("simhash:k=3")
    3
    """
    _, colon, rest = name.partition(":")
    if not colon:
        return None
    key, _, value = rest.partition("=")
    if key != "k" or not (value.isascii() and value.isdecimal()):
        raise ValueError(f"method {name!r}: simhash has one parameter, as in simhash:k=3")
    return int(value)


def _parameters(text: str) -> dict[str, str]:
    given: dict[str, str] = {}
    for parameter in text.split(","):
        key, equals, value = parameter.partition("=")
        if not (key and equals and value):
            raise ValueError(f"expected parameter=value, not {parameter!r}")
        if key in given:
            raise ValueError(f"{key} is given twice")
        given[key] = value
    return given


def _values(
    kind: type[SignatureMethod],
    given: Mapping[str, str],
    frequencies: DocumentFrequencies | None,
) -> dict[str, Any]:
    """Return the arguments of the class."""
    known = [each.name for each in fields(kind)]
    hints = get_type_hints(kind)
    values: dict[str, Any] = {}
    for key, value in given.items():
        if key not in known:
            raise ValueError(
                f"it has no parameter {key!r}, only {', '.join(known)}{suggestion(key, known)}"
            )
        if key != "frequencies":
            values[key] = _read(key, value, hints[key])
        elif frequencies is None or frequencies.digest != value:
            raise ValueError(f"needs the document frequencies {value}")
    weighed = given.get("weighting", "-idf").endswith("-idf")
    if "frequencies" in given or ("frequencies" in known and weighed):
        values["frequencies"] = frequencies
    return values


def _read(key: str, value: str, hint: Any) -> int | float | str:
    kinds = {hint, *get_args(hint)}
    if int in kinds:
        if not (value.isascii() and value.isdecimal()):
            raise ValueError(f"{key} must be a whole number, not {value!r}")
        return int(value)
    if float in kinds:
        try:
            return float(value)
        except ValueError:
            raise ValueError(f"{key} must be a number, not {value!r}") from None
    return value
