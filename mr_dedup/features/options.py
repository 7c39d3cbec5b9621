"""Which features a text has and what they weigh: the options, without the code that finds them."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mr_dedup.errors import not_one_of
from mr_dedup.features.foldings import checked_normalization
from mr_dedup.features.languages import check_language

Unit = Literal["words", "characters", "auto"]
Weighting = Literal["binary", "tf", "log-tf", "tf-idf", "log-tf-idf"]
Symbols = Literal["ignore", "auto", "keep"]
UNITS: tuple[Unit, ...] = get_args(Unit)
WEIGHTINGS: tuple[Weighting, ...] = get_args(Weighting)
SYMBOLS: tuple[Symbols, ...] = get_args(Symbols)

MAX_LENGTH = 64
"""The longest shingle: longer ones distinguish pages no better than a checksum does."""

_AUTO_WORDS = 3

LENGTH_BY_SCRIPT = 0
"""The length of shingles, for kernels, where the scripts of their tokens decide it."""

WEIGHT_ONE = 64
"""The weight 1.0 as an integer: sums of integers are the same on every machine."""

_MAX_OCCURRENCES = 4095
"""Occurrences above which a feature's logarithmic weight no longer grows."""


@dataclass(frozen=True)
class FeatureOptions:
    """Which features a text has: shingles of ``length`` words or characters, and their weights.

    A text becomes features in four steps:

    1. Unicode normalisation, by ``normalize``.
    2. Optionally, in this order: Chinese is segmented into words (``segment``), stop words are
       removed (``stop_words``), words are replaced by their stems (``stem``).
    3. Tokens: the text is case-folded character by character, then split into runs of letters,
       numbers and combining marks. Each character of CJK, Thai, Khmer and other scripts without
       spaces is a token by itself, with its marks, and so is a symbol (``symbols``).
       Tokens are joined by one space, two characters of such scripts by nothing.
    4. Shingles: each slice of the joined text over ``length`` neighbouring tokens or characters.
       A feature is the 64-bit XXH3 of a shingle.

    A text without tokens, such as an empty one, ``-----`` or an emoji, has one feature: the whole
    normalised text. So copies of it have the same feature, and other texts share none with it.

    Args:
        unit: What a shingle is made of: ``words``, ``characters`` of the joined tokens, or
            ``auto``. With ``auto`` scripts decide, see ``shingle_kernels.join_by_script``: 3 words,
            5 neighbouring characters of scripts without spaces, or as much of both.
        length: Words or characters a shingle, from 1 to MAX_LENGTH. Ignored with ``auto``.
        weighting: What a feature that occurs t times weighs: 1 (``binary``), t (``tf``) or
            1 + ln t (``log-tf``). ``tf-idf`` and ``log-tf-idf`` multiply that by the feature's
            inverse document frequency, and need document frequencies.
        stop_words: The language whose stop words are removed, such as ``en``.
        stem: The Snowball stemmer to use, such as ``english``.
        segment: ``zh`` to segment Chinese into words.
        normalize: ``nfkc`` (Unicode's toNFKC_Casefold: compatible characters replaced, full case
            folding, default-ignorable characters such as soft hyphens dropped), ``nfc`` (form C)
            or ``none``. ``nfkc+persian+hamza`` has the foldings of letters that are written in
            two ways, ``FOLDINGS``, as well.
        symbols: Which symbols are tokens. ``keep``: those of ASCII, all but letters, digits and
            white space, and those of Unicode (mathematical, currency, emoji and others).
            ``auto``: those of Unicode, of ASCII those of operators, see ``preparation.marked``.
            ``ignore``: none.

    Raises:
        ValueError: For a parameter out of range, or an unknown language.
        MrDedupError: If the package that ``stop_words``, ``stem`` or ``segment`` needs is not
            installed. Features are the same only with the same versions of these packages.

    Example:
        >>> options = FeatureOptions("words", 3, "binary")
        >>> options.shingles
        'words:3'
        >>> str(options)
        'words:3, binary, normalize nfkc'
    """

    unit: Unit = "words"
    length: int = 1
    weighting: Weighting = "log-tf"
    stop_words: str | None = None
    stem: str | None = None
    segment: str | None = None
    normalize: str = "nfkc"
    symbols: Symbols = "ignore"

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise ValueError(f"unit must be {not_one_of(self.unit, UNITS)}")
        if self.unit == "auto":
            object.__setattr__(self, "length", LENGTH_BY_SCRIPT)
        elif not 1 <= self.length <= MAX_LENGTH:
            raise ValueError(f"length must be from 1 to {MAX_LENGTH}, not {self.length}")
        if self.weighting not in WEIGHTINGS:
            raise ValueError(f"weighting must be {not_one_of(self.weighting, WEIGHTINGS)}")
        object.__setattr__(self, "normalize", checked_normalization(self.normalize))
        if self.symbols not in SYMBOLS:
            raise ValueError(f"symbols must be {not_one_of(self.symbols, SYMBOLS)}")
        check_language("stop_words", self.stop_words)
        check_language("stem", self.stem)
        check_language("segment", self.segment)

    @classmethod
    def parse(
        cls,
        text: str,
        weighting: str = "log-tf",
        normalize: str = "nfkc",
        symbols: Symbols = "ignore",
    ) -> FeatureOptions:
        """Return the options that a user names, such as ``words``, ``words:2`` or ``auto``.

        Args:
            text: ``words:N``, ``characters:N``, either without ``:N`` for 1, or ``auto``.
            weighting: As in the class.
            normalize: As in the class.
            symbols: As in the class.

        Raises:
            ValueError: For anything else.

        Example:
            >>> FeatureOptions.parse("characters:4").length
            4
        """
        unit, colon, length = text.partition(":")
        if colon and (unit == "auto" or not length.isdecimal()):
            raise ValueError(f"features are words:N, characters:N or auto, not {text!r}")
        # the class checks them
        known: Any = {"unit": unit, "weighting": weighting}
        return cls(length=int(length or 1), normalize=normalize, symbols=symbols, **known)

    def __str__(self) -> str:
        return f"{self._version}, {self.weighting}{self._preparation}"

    @property
    def shingles(self) -> str:
        """The unit and length, as ``parse`` reads them."""
        return "auto" if self.unit == "auto" else f"{self.unit}:{self.length}"

    @property
    def described_shingles(self) -> str:
        """The unit and length in words.

        >>> FeatureOptions("characters", 4).described_shingles
        '4 characters'
        """
        if self.unit == "auto":
            return f"{_AUTO_WORDS} words (5 characters in Chinese)"
        return f"{self.length} {self.unit if self.length > 1 else self.unit[:-1]}"

    @property
    def words(self) -> int | None:
        """The number of words of a shingle, 3 with ``auto``; None of characters."""
        if self.unit == "auto":
            return _AUTO_WORDS
        return self.length if self.unit == "words" else None

    @property
    def unweighted(self) -> str:
        """A description of the features without their weighting."""
        return f"{self._version}{self._preparation}"

    @property
    def _version(self) -> str:
        # the first had one length for all shingles of a text
        return "auto:2" if self.unit == "auto" else self.shingles

    @property
    def _preparation(self) -> str:
        parameters = (
            ("stop words", self.stop_words),
            ("stem", self.stem),
            ("segment", self.segment),
            ("normalize", self.normalize),
            ("symbols", None if self.symbols == "ignore" else self.symbols),
        )
        return "".join(f", {name} {value}" for name, value in parameters if value is not None)

    @property
    def uses_idf(self) -> bool:
        """Whether weights depend on the number of documents in which a feature occurs."""
        return self.weighting.endswith("-idf")

    @property
    def steps(self) -> NDArray[np.int32]:
        """What occurrence t + 1 adds to a feature's weight, in 64ths: int32[s].

        Every occurrence from s on adds the last step.
        """
        if self.weighting in ("tf", "tf-idf"):
            return np.array([WEIGHT_ONE], np.int32)
        if self.weighting == "binary":
            return np.array([WEIGHT_ONE, 0], np.int32)
        return _logarithmic_steps()


SHINGLES = FeatureOptions("auto", weighting="binary")
"""What texts are compared by: sets of 3 words, or of 5 characters of scripts without spaces."""


@functools.cache
def _logarithmic_steps() -> NDArray[np.int32]:
    """Return the steps of a feature that weighs 1 + ln t. Cached: they take 8 ms."""
    totals = [0]
    totals += [round(WEIGHT_ONE * (1 + math.log(t))) for t in range(1, _MAX_OCCURRENCES + 1)]
    return np.array([*np.diff(totals), 0], np.int32)
