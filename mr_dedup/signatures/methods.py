"""The methods there are, by their names."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_type_hints

if TYPE_CHECKING:
    from mr_dedup.features.document_frequencies import DocumentFrequencies
    from mr_dedup.signatures.parameters import ParameterisedMethod
    from mr_dedup.signatures.protocol import SignatureMethod


class Listed(NamedTuple):
    """A method that a user may ask for: where it is, and in one line what it goes by."""

    module: str
    class_name: str
    help: str

    @property
    def kind(self) -> type[ParameterisedMethod]:
        """The class, imported now: most runs have one method, and the kernels of all take 20 ms."""
        module = importlib.import_module(f"mr_dedup.signatures.{self.module}")
        kind: type[ParameterisedMethod] = getattr(module, self.class_name)
        return kind


METHODS: Mapping[str, Listed] = {
    "exact": Listed("exact", "Exact", "the same words in the same order"),
    "abstract": Listed("keyword_md5", "Abstract", "the same first 512 bytes"),
    "keywords": Listed(
        "keyword_md5", "Keywords", "the same words weigh most; with sim=, about as much"
    ),
    "text-profile": Listed(
        "text_profile", "TextProfile", "the same frequent words, about as often (as Nutch)"
    ),
    "segments": Listed(
        "segments", "Segments", "enough of the same lines, sentences or parts cut by their content"
    ),
    "minhash": Listed(
        "minhash", "MinHash", "enough of the same shingles, by bands of min-wise hashes"
    ),
    "super-shingles": Listed(
        "minhash",
        "SuperShingles",
        "the same by 2 of 6 bands of 14 (Broder): only what is very alike",
    ),
}


def parse_method(
    text: str,
    frequencies: DocumentFrequencies | None = None,
    normalize: str = "nfkc",
    similarity: float | None = None,
    shingles: str | None = None,
) -> SignatureMethod:
    """Return what ``text`` names: a method, and behind a colon its parameters, as in a=1,b=2.

    With ``similarity`` parameters that pairs of it are found by are chosen where none of them is
    given: the bands and rows of minhash.

    ``frequencies`` are what keywords weigh by, unless their weighting does without; a name that
    has the digest of such is read with these alone. Other methods have no use for them. A method
    of words normalises texts by ``normalize``, and one of shingles has ``shingles`` if that is not
    None, unless ``text`` says otherwise. Raises ValueError for
    what is not there or cannot be, in one line, MrDedupError for frequencies of other features, and
    for a library that is missing.
    """
    title, colon, rest = text.partition(":")
    if title not in METHODS:
        raise ValueError(f"method {title!r} is none of {', '.join(METHODS)}")
    kind = METHODS[title].kind
    try:
        given = _given(rest) if colon else {}
        hints = get_type_hints(kind)
        if "normalize" in hints:
            given.setdefault("normalize", normalize)
        if "shingles" in hints and shingles is not None:
            given.setdefault("shingles", shingles)
        values = _values(kind, given, frequencies)
        chosen = {} if similarity is None else kind.defaults_for(similarity)
        return kind(**(values if chosen.keys() & values.keys() else chosen | values))
    except ValueError as error:
        raise ValueError(f"method {text!r}: {error}") from error


def _given(text: str) -> dict[str, str]:
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
    kind: type[ParameterisedMethod],
    given: Mapping[str, str],
    frequencies: DocumentFrequencies | None,
) -> dict[str, Any]:
    """Return the arguments to make a method with."""
    known = [each.name for each in fields(kind)]
    hints = get_type_hints(kind)
    values: dict[str, Any] = {}
    for key, value in given.items():
        if key not in known:
            raise ValueError(f"it has no {key!r}, but {', '.join(known)}")
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
