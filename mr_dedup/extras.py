"""Errors that name what to install where a package of an extra is missing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def imports_for(module: str, extra: str) -> Iterator[None]:
    """Name the extra in the ModuleNotFoundError of the block, which imports packages of it.

    >>> with imports_for("mr_dedup.flowers", "words"):
    ...     import tulips_of_nowhere
    Traceback (most recent call last):
    ModuleNotFoundError: mr_dedup.flowers needs the package tulips_of_nowhere: pip install \
'mr-dedup[words]'
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{module} needs the package {error.name}: pip install 'mr-dedup[{extra}]'",
            name=error.name,
        ) from error
