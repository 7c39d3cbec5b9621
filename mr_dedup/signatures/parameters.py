"""Parameters of methods: those of all that compare words, and their ranges."""

from __future__ import annotations

from dataclasses import dataclass, field

from mr_dedup.features.options import FeatureOptions, Symbols
from mr_dedup.signatures.protocol import SignatureMethod


@dataclass(frozen=True)
class MethodOfWords(SignatureMethod):
    """A method that prepares texts and splits them into words, as by ``FeatureOptions``.

    Args:
        stop_words, stem, segment, normalize, symbols: As in ``FeatureOptions``, with its defaults;
            None of ``normalize`` and ``symbols`` is the default there.

    Raises:
        ValueError: For an unknown language.
        MrDedupError: If the package for a language is not installed.
    """

    stop_words: str | None = field(default=None, kw_only=True)
    stem: str | None = field(default=None, kw_only=True)
    segment: str | None = field(default=None, kw_only=True)
    normalize: str | None = field(default=None, kw_only=True)
    symbols: Symbols | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        prepared = self.prepared(FeatureOptions())
        for name in ("normalize", "symbols"):
            value = getattr(prepared, name)
            is_default = value == getattr(FeatureOptions, name)
            object.__setattr__(self, name, None if is_default else value)

    def prepared(self, options: FeatureOptions) -> FeatureOptions:
        """Return ``options`` with this method's preparation of texts."""
        return FeatureOptions(
            options.unit, options.length, options.weighting,
            self.stop_words, self.stem, self.segment, self.normalize or FeatureOptions.normalize,
            self.symbols or FeatureOptions.symbols,
        )  # fmt: skip


def check_range(name: str, value: float, low: float, high: float) -> None:
    """Raise ValueError, naming the parameter, for a value out of range."""
    if not low <= value <= high:
        raise ValueError(f"{name} must be from {low} to {high}, not {value}")
