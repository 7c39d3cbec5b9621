"""The languages that texts can be prepared in, and the optional packages for them.

The packages are rjieba (Chinese words), stopwordsiso and PyStemmer, which the extra ``words``
installs.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any

from mr_dedup.errors import MrDedupError, not_one_of

_LANGUAGES: dict[str, Callable[[], Iterable[str]]] = {
    "stop_words": lambda: load_package("stopwordsiso").langs(),
    "stem": lambda: load_package("Stemmer").algorithms(),
    "segment": lambda: load_package("rjieba") and ("zh",),
}


def load_package(name: str) -> Any:
    """Return an optional package, imported.

    Raises:
        MrDedupError: If it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = "PyStemmer" if name == "Stemmer" else name
        raise MrDedupError(
            f"stop words, stems and Chinese words need the package {package}: "
            "pip install 'mr-dedup[words]'"
        ) from error


def check_language(parameter: str, language: str | None) -> None:
    """Check that the package for ``parameter`` supports a language.

    Args:
        parameter: ``stop_words``, ``stem`` or ``segment``.
        language: As the package names it; None is always accepted.

    Raises:
        ValueError: For an unknown language.
        MrDedupError: If the package is not installed.
    """
    if language is None:
        return
    known = sorted(_LANGUAGES[parameter]())
    if language not in known:
        raise ValueError(f"{parameter} must be {not_one_of(language, known)}")
