"""What a passage is: the options, without the code that finds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from mr_dedup.features.foldings import checked_normalization

Unit = Literal["tokens", "lines", "paragraphs"]
UNITS: tuple[Unit, ...] = get_args(Unit)

MAX_SIZE = 1 << 16
"""The longest window, in tokens."""

DEFAULT_SIZE = 50


@dataclass(frozen=True)
class PassageOptions:
    """What is counted: windows of ``size`` tokens, lines or paragraphs.

    Args:
        unit: ``tokens``, ``lines`` or ``paragraphs``.
        size: Of ``tokens``, the tokens of a window.
        min_tokens: Lines and paragraphs of fewer tokens are not counted.
        normalize: As in ``FeatureOptions``.

    Raises:
        ValueError: For a parameter out of range.

    Example:
        >>> PassageOptions.parse("tokens:20").size
        20
        >>> PassageOptions.parse("lines", min_tokens=3).name
        'lines'
    """

    unit: Unit = "tokens"
    size: int = DEFAULT_SIZE
    min_tokens: int = 1
    normalize: str = "nfkc"

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise ValueError(f"unit: expected one of {', '.join(UNITS)}, got {self.unit!r}")
        for name in ("size", "min_tokens"):
            value = getattr(self, name)
            if not 1 <= value <= MAX_SIZE:
                raise ValueError(f"{name}: expected 1 to {MAX_SIZE} tokens, got {value}")
        if self.unit == "tokens" and self.min_tokens != 1:
            raise ValueError("min_tokens: is of lines and paragraphs; give the size of windows")
        object.__setattr__(self, "normalize", checked_normalization(self.normalize))

    @classmethod
    def parse(cls, text: str, min_tokens: int = 1, normalize: str = "nfkc") -> PassageOptions:
        """Return the options that a user names: ``tokens:N``, ``lines`` or ``paragraphs``.

        Raises:
            ValueError: For anything else.
        """
        unit, colon, size = text.partition(":")
        if unit not in UNITS or (colon and (unit != "tokens" or not size.isdecimal())):
            raise ValueError(f"unit: expected tokens:N, lines or paragraphs, got {text!r}")
        if len(size) > len(str(MAX_SIZE)):
            raise ValueError(f"size: expected 1 to {MAX_SIZE} tokens, got {size[:20]}")
        number = int(size) if colon else DEFAULT_SIZE
        return cls(unit, number, min_tokens, normalize)

    @property
    def name(self) -> str:
        """The unit and size, as ``parse`` reads them."""
        return f"tokens:{self.size}" if self.unit == "tokens" else self.unit

    @property
    def gram(self) -> int:
        """The tokens by whose hashes windows are found, about half of them."""
        return (self.size + 1) // 2
