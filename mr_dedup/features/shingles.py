"""From texts to features: which shingles a text has, and what each weighs."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.features import kernels
from mr_dedup.features.document_frequencies import IDF_ONE, DocumentFrequencies, weighing
from mr_dedup.features.frequency_kernels import weigh_by_rarity
from mr_dedup.features.normalisation import slices
from mr_dedup.features.normalisation_table import NORMALIZATIONS, Normalization
from mr_dedup.features.preparation import check_languages, prepare, table_for
from mr_dedup.kernels.byte_blocks import COPY_BYTES

Unit = Literal["words", "characters", "auto"]
Weighting = Literal["binary", "tf", "log-tf", "tf-idf", "log-tf-idf"]
UNITS: tuple[Unit, ...] = get_args(Unit)
WEIGHTINGS: tuple[Weighting, ...] = get_args(Weighting)

MAX_LENGTH = 64
"""The longest shingle: longer ones tell pages apart no better than their checksum."""

BY_SCRIPT = 0
"""The length for kernels where the script decides."""

_ONE = 64
"""The weight of 1 as a whole number: sums of whole numbers are the same on every machine."""

_MOST = 4095
"""Occurrences from which a feature weighs no more."""


@dataclass(frozen=True)
class FeatureOptions:
    """Which features a text has: shingles of ``length`` words or characters, and their weights.

    With the unit ``auto``, which has no length, the script decides: a text has the shingles of
    words:5 where at least a tenth of its tokens are characters of scripts without spaces next to
    one another, else those of words:3. Which ones it has depends on nothing but the text.

    The text is first normalised by ``normalize``: "nfkc" is Unicode's toNFKC_Casefold
    (compatible characters as one, full case folding, soft hyphens and other default-ignorable
    characters dropped), "nfc" its form C, "none" neither. Then it is folded to one case, character
    by character, cut into tokens (runs of letters, numbers and combining marks; each character of
    CJK, Thai, Khmer and other scripts without spaces by itself, with its marks), and these joined
    by a space, or nothing between two such characters. A shingle is a slice of that over ``length``
    tokens or characters. A feature that occurs t times weighs 1 (binary), t (tf) or 1 + ln t
    (log-tf); with -idf at the end that times its inverse document frequency, for which frequencies
    must be given.

    A text without a token, such as an empty one, ``-----`` or an emoji, has one feature, which is
    the text as it is once normalised: so copies have the same features, and others share none.

    On request, after normalisation: ``segment`` cuts Chinese ("zh") into its words, ``stop_words``
    leaves out those of a language ("en"), ``stem`` replaces words by their stems ("english", as
    Snowball calls its rules). These need the extra ``words``; features are the same only with the
    same versions of its libraries.
    """

    unit: Unit = "words"
    length: int = 1
    weighting: Weighting = "log-tf"
    stop_words: str | None = None
    stem: str | None = None
    segment: str | None = None
    normalize: Normalization = "nfkc"

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise ValueError(f"unit must be one of {', '.join(UNITS)}, not {self.unit!r}")
        if self.unit == "auto":
            object.__setattr__(self, "length", BY_SCRIPT)
        elif not 1 <= self.length <= MAX_LENGTH:
            raise ValueError(f"length must be from 1 to {MAX_LENGTH}, not {self.length}")
        if self.weighting not in WEIGHTINGS:
            names = ", ".join(WEIGHTINGS)
            raise ValueError(f"weighting must be one of {names}, not {self.weighting!r}")
        if self.normalize not in NORMALIZATIONS:
            names = ", ".join(NORMALIZATIONS)
            raise ValueError(f"normalize must be one of {names}, not {self.normalize!r}")
        check_languages(self)

    @classmethod
    def parse(cls, text: str, weighting: str = "log-tf", normalize: str = "nfkc") -> FeatureOptions:
        """Return what ``text`` names, such as words, words:2, characters:4; ValueError if none."""
        unit, colon, length = text.partition(":")
        if colon and (unit == "auto" or not length.isdecimal()):
            raise ValueError(f"features are words:N, characters:N or auto, not {text!r}")
        return cls(unit, int(length or 1), weighting, normalize=normalize)  # type: ignore[arg-type]

    def __str__(self) -> str:
        return f"{self.shingles}, {self.weighting}{self._asked}"

    @property
    def shingles(self) -> str:
        """What ``parse`` makes the unit and length of."""
        return "auto" if self.unit == "auto" else f"{self.unit}:{self.length}"

    @property
    def unweighted(self) -> str:
        """Which features these are, whatever they weigh."""
        return f"{self.shingles}{self._asked}"

    @property
    def _asked(self) -> str:
        asked = (
            f", {name} {language}"
            for name, language in (
                ("stop words", self.stop_words),
                ("stem", self.stem),
                ("segment", self.segment),
                ("normalize", self.normalize),
            )
            if language is not None
        )
        return "".join(asked)

    @property
    def by_rarity(self) -> bool:
        """Whether weights depend on in how many documents a feature occurs."""
        return self.weighting.endswith("-idf")

    @property
    def steps(self) -> NDArray[np.int32]:
        """What each further occurrence adds to a feature's weight, in 64ths."""
        if self.weighting in ("tf", "tf-idf"):
            return np.array([_ONE], np.int32)
        if self.weighting == "binary":
            return np.array([_ONE, 0], np.int32)
        return _logarithmic_steps()


@functools.cache
def _logarithmic_steps() -> NDArray[np.int32]:
    """Return what the occurrences of a feature that weighs 1 + ln t add; they take 8 ms."""
    totals = [0, *(round(_ONE * (1 + math.log(t))) for t in range(1, _MOST + 1))]
    return np.array([*np.diff(totals), 0], np.int32)


def most_features(
    size_bytes: NDArray[np.int64] | int, options: FeatureOptions
) -> NDArray[np.int64] | int:
    """Return as many shingles, repeats counted, as texts of ``size_bytes`` never have more."""
    # folded, a text has at most twice the bytes
    return 2 * size_bytes + 2 if options.unit == "characters" else size_bytes // 2 + 2


def scratch_for(size_bytes: int, options: FeatureOptions) -> kernels.Scratch:
    """Return scratch for texts of up to ``size_bytes``.

    Takes up to 40 bytes a byte for words, 100 for characters; a text touches a third of that.
    """
    tokens = size_bytes // 2 + 2
    by_characters = options.unit == "characters"
    pieces = int(most_features(size_bytes, options))
    features = (pieces + 15) // 8 * 8
    slots = 1 << (2 * features - 1).bit_length()
    token_starts, token_stops = np.empty(tokens, np.uint32), np.empty(tokens, np.uint32)
    starts, stops = token_starts, token_stops
    if by_characters:
        starts, stops = np.empty(pieces, np.uint32), np.empty(pieces, np.uint32)
    return kernels.Scratch(
        np.empty(2 * size_bytes + 2 * COPY_BYTES, np.uint8),
        token_starts,
        token_stops,
        starts,
        stops,
        np.empty(features, np.uint64),
        np.empty(features, np.int32),
        np.empty(slots, np.uint64),
        np.empty(slots, np.uint32),
        np.empty((4, kernels.SPAN), np.uint32),
    )


def slices_of(
    texts: pa.LargeStringArray, options: FeatureOptions
) -> tuple[NDArray[np.uint8], NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the UTF-8 of n prepared texts, and where each starts and stops, uint64[n].

    A null starts and stops past the UTF-8. Raises ValueError for another type of array.
    """
    slices(texts)
    return slices(prepare(texts, options))


@dataclass(frozen=True)
class Features:
    """The features of a text: ``shingles``, each once, ``hashes`` uint64[n], ``weights``."""

    shingles: tuple[str, ...]
    hashes: NDArray[np.uint64]
    weights: NDArray[np.float64]


def features_of(
    text: str, options: FeatureOptions, frequencies: DocumentFrequencies | None = None
) -> Features:
    """Return the features of one text, in the order in which they first occur.

    To explain, not to compute with: about a microsecond a feature. Raises ValueError for a text
    with lone surrogates, and as ``document_frequencies.weighing``.
    """
    table = weighing(options, frequencies)
    try:
        texts = pa.array([text], pa.large_string())
    except UnicodeEncodeError as error:
        raise ValueError(f"text: character {error.start} is a lone surrogate") from error
    content = np.frombuffer(prepare(texts, options)[0].as_buffer(), np.uint8)
    scratch = scratch_for(content.size, options)
    by_characters = options.unit == "characters"
    count, length = kernels.find_features(
        content, np.uint64(0), np.uint64(content.size), *table_for(options), by_characters,
        np.uint64(options.length), options.steps, scratch,
    )  # fmt: skip
    one = _ONE
    if options.by_rarity:
        weigh_by_rarity(scratch.hashes, scratch.weights, count, table)
        one *= IDF_ONE
    totals: dict[int, float] = {}
    shingles: dict[int, str] = {}
    for i in range(count):
        key = int(scratch.hashes[i])
        totals[key] = totals.get(key, 0) + int(scratch.weights[i]) / one
        if key not in shingles:
            place = slice(scratch.starts[i], scratch.stops[i + length - 1])
            shingles[key] = scratch.text[place].tobytes().decode()
    return Features(
        tuple(shingles.values()),
        np.array(list(totals), np.uint64),
        np.array(list(totals.values()), np.float64),
    )
