"""``mr_dedup.Deduplicator``: which texts of a stream are new, one batch after another."""

from __future__ import annotations

import contextlib
import itertools
import os
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.files.temporary import removable_folder
from mr_dedup.index.fingerprint_options import Fingerprinter, FingerprintOptions
from mr_dedup.index.folder import MANIFEST_NAME
from mr_dedup.index.hamming_index import HammingIndex
from mr_dedup.index.ids import require_sequence
from mr_dedup.index.protocol import Fingerprints, IndexMatches

_K = 3
_MAX_MATCHES = 10


class Checked(NamedTuple):
    """The result of ``Deduplicator.check`` and ``check_and_add``.

    Attributes:
        is_new: bool[n], True for each text that is not a near-duplicate of a stored one.
        matches: The ids of the stored near-duplicates of each text, nearest first, at most 10.
    """

    is_new: NDArray[np.bool_]
    matches: list[list[str]]


class Deduplicator:
    """Recognises near-duplicates in a stream of texts, for crawlers and data loaders.

    Texts are compared by the Hamming distance of 64-bit fingerprints, exactly. ``add`` stores those
    that are new, ``check`` only looks up, and ``check_and_add`` does both in one step.

    May be used from several threads: changes wait for each other, ``check`` for none. Of several
    processes one at a time may open a ``folder``; a child that is forked may ``check``, and its
    changes raise MrDedupError.

    Args:
        folder: The directory of an index, opened if there is one, else made. By default a temporary
            one, removed by ``close``.
        k: The largest distance of near-duplicates in bits, 0 to 32. By default that of the index
            that is opened, 3 for a new one.
        options: What fingerprints are made from. By default as those of the index that is opened,
            words of a text for a new one.

    Raises:
        ValueError: ``k`` or ``options`` is not valid, or not that of the index.
        MrDedupError: The index cannot be opened or made, or another process writes to it.

    Example:
        >>> with Deduplicator() as seen:
        ...     page = "the quick brown fox jumps over the lazy dog"
        ...     first = seen.add([page, "an unrelated text of five words", page])
        ...     second = seen.add([page, "one more"])
        >>> first.tolist(), second.tolist()
        ([True, True, False], [False, True])
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        k: int | None = None,
        options: FingerprintOptions | None = None,
    ) -> None:
        self._passed = itertools.count()
        self._is_temporary = folder is None
        with contextlib.ExitStack() as opened:
            if folder is None:
                folder, remove = removable_folder()
                opened.callback(weakref.finalize(self, remove))
            self.index = opened.enter_context(_opened(Path(folder), k, options))
            self._fingerprinter = _fingerprinter_of(self.index, k, options)
            self._resources = opened.pop_all()

    def add(self, texts: Sequence[str], ids: Sequence[str] | None = None) -> NDArray[np.bool_]:
        """Store the texts that are new; return which, bool[n].

        A text that is passed again under its id is not new, as when a crawler repeats the batch
        during which it was stopped. A text under the id of a stored one that is not a
        near-duplicate of it, a page that has changed, is compared with the others, and replaces
        that one if it is new.

        Args:
            texts: n texts; each is compared with those before it too.
            ids: A name for each. By default, of a temporary index only, the number of the text
                among all that were passed.

        Raises:
            TypeError: ``texts`` or ``ids`` is one text, or an element is not a text.
            ValueError: ``ids`` are not as many, not valid, or missing with a ``folder``.
            MrDedupError: They cannot be stored; none was.
        """
        return self.check_and_add(texts, ids).is_new

    def check(self, texts: Sequence[str]) -> Checked:
        """Compare texts with those that are stored; store none.

        Takes no ids, and does not compare the texts with each other: of two equal ones both may be
        new. Does not wait for changes of other threads.

        Args:
            texts: n texts.

        Returns:
            Which are new, and what the others are near-duplicates of.

        Raises:
            TypeError: ``texts`` is one text, or an element is not a text.
            MrDedupError: The index is damaged.

        Example:
            >>> with Deduplicator() as seen:
            ...     _ = seen.add(["the quick brown fox jumps over the lazy dog"])
            ...     found = seen.check(["The quick brown fox jumps over the lazy dog.", "a cat"])
            ...     found.is_new.tolist(), found.matches, len(seen)
            ([False, True], [['0'], []], 1)
        """
        found = self.index.query(self._fingerprints(texts), limit=_MAX_MATCHES)
        is_new = np.ones(len(texts), bool)
        is_new[found.queries] = False
        return Checked(is_new, _by_text(found, len(texts)))

    def check_and_add(self, texts: Sequence[str], ids: Sequence[str] | None = None) -> Checked:
        """Store the texts that are new, as ``add``; return also what the others duplicate.

        A text that is passed again under its id has that id among its matches.

        Args:
            texts: n texts; each is compared with those before it too.
            ids: As for ``add``.

        Returns:
            Which are new and were stored, and what the others are near-duplicates of.

        Raises:
            TypeError: As ``add``.
            ValueError: As ``add``.
            MrDedupError: As ``add``.

        Example:
            >>> page = "the quick brown fox jumps over the lazy dog"
            >>> with Deduplicator() as seen:
            ...     found = seen.check_and_add([page, page], ["a", "b"])
            >>> found.is_new.tolist(), found.matches
            ([True, False], [[], ['a']])
        """
        values = self._fingerprints(texts)
        require_sequence("ids", ids, "id")
        if ids is None:
            names = self._numbers(len(texts))
        else:
            names = ids.to_pylist() if isinstance(ids, pa.Array | pa.ChunkedArray) else list(ids)
        found = self.index.check_and_add(
            values, names, limit=_MAX_MATCHES, only_new=True, match_same_id=True
        )
        return Checked(found.added, _by_text(found.matches, len(texts)))

    def _fingerprints(self, texts: Sequence[str]) -> Fingerprints:
        require_sequence("texts", texts, "text")
        if isinstance(texts, pa.ChunkedArray):
            texts = texts.combine_chunks()
        try:
            column = pa.array(texts, pa.large_string())
        except (pa.ArrowInvalid, TypeError) as error:
            raise TypeError(f"texts: expected a sequence of texts ({error})") from error
        if column.null_count:
            row = column.is_null().to_pylist().index(True)
            raise TypeError(f"texts: element {row} is None, not a text")
        return self._fingerprinter.of(column)

    def _numbers(self, count: int) -> list[str]:
        if not self._is_temporary:
            raise ValueError("ids: required with a folder, whose ids they must not repeat")
        return [str(number) for number in itertools.islice(self._passed, count)]

    def __len__(self) -> int:
        """Return the number of stored texts."""
        return len(self.index)

    def close(self) -> None:
        """Write what is not on the disk yet, and close the index."""
        self._resources.close()

    def __enter__(self) -> Deduplicator:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _opened(folder: Path, k: int | None, options: FingerprintOptions | None) -> HammingIndex:
    """Open an index; make it if there is none."""
    if (folder / MANIFEST_NAME).exists():
        return HammingIndex.open(folder)
    return HammingIndex.create(
        folder, k=_K if k is None else k, made_from=options or FingerprintOptions()
    )


def _fingerprinter_of(
    index: HammingIndex, k: int | None, options: FingerprintOptions | None
) -> Fingerprinter:
    """Return a fingerprinter of an index; ValueError unless it has ``k`` and ``options``."""
    name = str(index.folder)
    if k not in (None, index.k):
        raise ValueError(f"k: the index {name} was made with k={index.k}, not {k}")
    if options is not None:
        fingerprinter = options.fingerprinter()
        if fingerprinter.described != index.features:
            raise ValueError(
                f"options: the fingerprints of the index {name} are made from {index.features}, "
                f"not {fingerprinter.described}"
            )
        return fingerprinter
    return (index.made_from or FingerprintOptions()).fingerprinter_for(index.features, name)


def _by_text(found: IndexMatches, count: int) -> list[list[str]]:
    """Return the ids that match each of ``count`` texts."""
    matches: list[list[str]] = [[] for _ in range(count)]
    for row, id in zip(found.queries.tolist(), found.ids, strict=True):
        matches[row].append(id)
    return matches
