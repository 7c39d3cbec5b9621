"""Policies for which document of a cluster is kept: orders of preference by columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.clusters.documents import ClusteredDocuments
from mr_dedup.errors import MrDedupError, not_one_of

_UP, _DOWN = "ascending", "descending"

_READ = {"newest": _DOWN, "oldest": _UP, "highest": _DOWN, "lowest": _UP}
"""The preferences by the values of a field, and the order of their sort keys."""

_TIMES = ("newest", "oldest")
"""Those of them whose values are times, not numbers."""

_BY_VALUES = ("rank", "prefer")
"""Those by a list of values; prefer is another name of rank."""

_OTHERS = "*"
"""What stands in such a list for all other values."""

KINDS = ("first", "longest", "shortest", *_READ, *_BY_VALUES)
"""The kinds of preferences."""


class FieldError(MrDedupError):
    """Fields of the documents that do not fit an option of the run: ``option``."""

    def __init__(self, option: str, message: str) -> None:
        self.option = option
        super().__init__(message)


class MissingFieldError(FieldError):
    """An option that needs a field which no document has: by default a policy."""

    def __init__(
        self, field: str, option: str = "--keep", reason: str = ", which decides what is kept"
    ) -> None:
        self.field = field
        super().__init__(option, f"no document has the field {field}{reason}")


@dataclass(frozen=True)
class Preference:
    """One step of a policy: ``kind`` is one of KINDS.

    ``field`` names what newest, oldest, highest, lowest, rank and prefer look at; ``values`` are
    those that rank and prefer put into this order, ``*`` for all others. Raises ValueError for what
    does not go together.
    """

    kind: str
    field: str | None = None
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"a preference is {not_one_of(self.kind, KINDS)}")
        takes_field = self.kind in _READ or self.kind in _BY_VALUES
        if takes_field and not self.field:
            raise ValueError(f"{self.kind} needs a field, as in {self.kind}:date")
        if not takes_field and self.field is not None:
            raise ValueError(f"{self.kind} takes no field, got {self.field!r}")
        if (self.kind in _BY_VALUES) != bool(self.values):
            raise ValueError(
                f"{self}: rank and prefer, and these alone, need values, as in rank:lang=en,de,*"
            )
        if "" in self.values or len(set(self.values)) != len(self.values):
            raise ValueError(f"{self}: expected distinct values, none of them empty")

    @classmethod
    def parse(cls, text: str) -> Preference:
        """Return what ``text`` names, such as longest, newest:date, rank:lang=en,*,de."""
        kind, colon, field = text.partition(":")
        values: tuple[str, ...] = ()
        if kind in _BY_VALUES:
            field, equals, listed = field.partition("=")
            values = tuple(listed.split(",")) if equals else ()
        return cls(kind, field if colon else None, values)

    def keys(self, values: pa.LargeStringArray) -> list[tuple[pa.Array, str]]:
        """Return sort keys of the values of its field, null for those that it cannot order."""
        if self.kind not in _BY_VALUES:
            from mr_dedup.clusters.field_values import numbers, times

            read = times(values) if self.kind in _TIMES else numbers(values)
            return [(key, _READ[self.kind]) for key in read]
        import pyarrow.compute as pc

        ranks = pc.index_in(values, value_set=pa.array(self.values, pa.large_string()))
        if _OTHERS in self.values:
            others = pa.scalar(self.values.index(_OTHERS), pa.int32())
            ranks = pc.if_else(pc.is_valid(values), pc.fill_null(ranks, others), None)
        return [(ranks, _UP)]

    def unordered(self, values: pa.LargeStringArray) -> int:
        """Return how many values are neither null nor what it orders by: a time, a number."""
        return self.keys(values)[0][0].null_count - values.null_count if self.kind in _READ else 0

    def __str__(self) -> str:
        name = self.kind if self.field is None else f"{self.kind}:{self.field}"
        return f"{name}={','.join(self.values)}" if self.values else name


@dataclass(frozen=True)
class KeepPolicy:
    """Preferences by priority; ties are broken by id, then file and position.

    So the order does not depend on how documents were divided among tasks, even if ids repeat.
    ``first`` is the order in which documents are read; ``longest`` and ``shortest`` go by the bytes
    of the text; ``newest:FIELD`` and ``oldest:FIELD`` by times, ``highest:FIELD`` and
    ``lowest:FIELD`` by numbers, as field_values.py reads them; ``rank:FIELD=VALUE,VALUE`` by
    which value comes earlier in the list, in which ``*`` stands for all other values; without it
    these come last. Documents without a value that can be ordered come last.
    """

    preferences: tuple[Preference, ...]

    @classmethod
    def parse(cls, texts: Sequence[str]) -> KeepPolicy:
        """Return the policy that ``texts`` name, such as ["newest:date", "longest"].

        Raises ValueError for an unknown preference, and for none.
        """
        if isinstance(texts, str) or not texts:
            raise ValueError(f"policy: expected one preference or more, got {texts!r}")
        return cls(tuple(Preference.parse(text) for text in texts))

    @property
    def by_fields(self) -> list[tuple[str, Preference]]:
        """The preferences by fields, each once, with the field."""
        steps = dict.fromkeys(self.preferences)
        return [(step.field, step) for step in steps if step.field is not None]

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields that :meth:`rank` needs, each once."""
        named = [step.field for step in self.preferences if step.field is not None]
        return tuple(dict.fromkeys(named))

    def __str__(self) -> str:
        return ", ".join(map(str, self.preferences))

    def rank(self, documents: ClusteredDocuments) -> NDArray[np.int64]:
        """Return the rows of all documents, of whichever clusters, int64[n], best first.

        One sort by all keys: 0.3 s for a million documents, 1 s where ids decide; to read times
        takes 2 s a million, and 1.5 ms at least: rank many clusters at once. 8 bytes a document
        and key. Raises ValueError for a field that the documents lack.
        """
        names = [] if documents.fields is None else documents.fields.column_names
        for field in self.fields:
            if field not in names:
                raise ValueError(f"fields: {self} needs {field!r}, the documents have {names}")
        keys: list[tuple[pa.Array, str]] = []
        for step in self.preferences:
            if step.field is None:
                keys += _keys_of_documents(step.kind, documents)
                continue
            assert documents.fields is not None
            keys += step.keys(documents.fields[step.field].combine_chunks())
        last = (documents.ids, documents.files, documents.positions)
        keys += [(pa.array(column), _UP) for column in last]
        table = pa.table([key for key, _ in keys], names=[str(i) for i in range(len(keys))])
        # nulls, values that cannot be used, come last whichever way a key goes
        sort_keys = [(str(i), way) for i, (_, way) in enumerate(keys)]
        import pyarrow.compute as pc

        order: NDArray[np.int64] = pc.sort_indices(table, sort_keys=sort_keys).to_numpy()
        return order.astype(np.int64)


def _keys_of_documents(kind: str, documents: ClusteredDocuments) -> list[tuple[pa.Array, str]]:
    if kind == "first":
        return [(pa.array(documents.files), _UP), (pa.array(documents.positions), _UP)]
    return [(pa.array(documents.text_bytes), _DOWN if kind == "longest" else _UP)]
