"""mr_dedup: near-duplicate detection for web crawls and text corpora.

>>> import mr_dedup
>>> sorted(set(mr_dedup.__all__) - {"MrDedupError"})[:3]
['DecontaminationResult', 'DedupResult', 'Deduplicator']
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mr_dedup.api.counting import counts
    from mr_dedup.api.decontamination import DecontaminationResult, decontaminate
    from mr_dedup.api.deduplication import DedupResult, dedup
    from mr_dedup.api.deduplicator import Deduplicator
    from mr_dedup.api.evaluation import compare, evaluate
    from mr_dedup.api.passages import PassagesResult, find_passages, restore
    from mr_dedup.api.searching import fingerprint, pairs, query
    from mr_dedup.errors import MrDedupError
    from mr_dedup.index.fingerprint_options import FingerprintOptions
    from mr_dedup.index.hamming_index import HammingIndex as Index
    from mr_dedup.urls.filter import UrlFilter
    from mr_dedup.urls.opening import open_filter as open_url_filter

__version__ = "0.1.0"

_MODULES = {
    "DecontaminationResult": "api.decontamination",
    "DedupResult": "api.deduplication",
    "Deduplicator": "api.deduplicator",
    "FingerprintOptions": "index.fingerprint_options",
    "Index": "index.hamming_index:HammingIndex",
    "MrDedupError": "errors",
    "PassagesResult": "api.passages",
    "UrlFilter": "urls.filter",
    "compare": "api.evaluation",
    "counts": "api.counting",
    "decontaminate": "api.decontamination",
    "dedup": "api.deduplication",
    "evaluate": "api.evaluation",
    "find_passages": "api.passages",
    "fingerprint": "api.searching",
    "open_url_filter": "urls.opening:open_filter",
    "pairs": "api.searching",
    "query": "api.searching",
    "restore": "api.passages",
}
"""Where each name is, and what it is called there if that differs: imported when it is used."""

__all__ = [
    "DecontaminationResult",
    "DedupResult",
    "Deduplicator",
    "FingerprintOptions",
    "Index",
    "MrDedupError",
    "PassagesResult",
    "UrlFilter",
    "compare",
    "counts",
    "decontaminate",
    "dedup",
    "evaluate",
    "find_passages",
    "fingerprint",
    "open_url_filter",
    "pairs",
    "query",
    "restore",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'mr_dedup' has no attribute {name!r}")
    module, _, attribute = _MODULES[name].partition(":")
    found = getattr(importlib.import_module(f"mr_dedup.{module}"), attribute or name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
