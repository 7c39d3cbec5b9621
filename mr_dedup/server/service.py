"""What the server does with an index: messages in, messages out, nothing of HTTP."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.temporary import temporary_folder
from mr_dedup.hamming.bit_order import BitOrder
from mr_dedup.hamming.design import BITS, designs_for
from mr_dedup.index import http_messages as messages
from mr_dedup.index.hamming_index import HammingIndex
from mr_dedup.index.http_messages import parse_fingerprint, parse_fingerprints, said, said_matches
from mr_dedup.index.protocol import Fingerprints

_GIB, _MIB = 1 << 30, 1 << 20
_WARM = 16


@dataclass(frozen=True)
class Limits:
    """Limits of a server, each 1 or more.

    ``body_bytes`` of a call, ``batch`` documents of a call, ``seconds`` that a body may take to
    come, an answer to be made, and to be taken, ``calls`` at a time, ``matches`` of an answer, of
    all its documents together, ``connections`` at a time, ``header_seconds`` that the header of a
    call may take to come.

    Raises ValueError for less than 1 of any.
    """

    body_bytes: int = 4 * _MIB
    batch: int = 4096
    seconds: float = 30.0
    calls: int = 256
    matches: int = 100_000
    connections: int = 1000
    header_seconds: float = 10.0

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            if not 1 <= value <= 64 * _GIB:
                raise ValueError(f"{name} must be from 1 to {64 * _GIB}, not {value}")


class NotHeldError(Exception):
    """A document that is to be removed is not held."""


class NotWarmError(MrDedupError):
    """Compiled code could not be loaded before the first call; calls are answered all the same."""


class Service:
    """An index, told and asked by messages; for several threads at a time.

    Methods raise ValueError for what cannot be or is too much at once, and MrDedupError if it
    cannot be kept: then nothing was changed.
    """

    def __init__(self, index: HammingIndex, limits: Limits) -> None:
        """Serve ``index``; raises MrDedupError if what makes fingerprints of texts is missing."""
        self.index, self.limits = index, limits
        self._maker = None
        if index.made_from is not None:
            self._maker = index.made_from.maker_for(index.features, str(index.folder))

    def warm(self) -> None:
        """Load all compiled code: the first call is not to wait for it, nor need file descriptors.

        Writes a small index to a temporary folder. Raises NotWarmError if that cannot be done: the
        service can be used then, but its first calls may take seconds more.
        """
        fingerprints, ids = np.arange(_WARM, dtype=np.uint64), [f"{n}" for n in range(_WARM)]
        named, k = self.index.named, self.index.k
        self.index.query(fingerprints, limit=1)
        if self._maker is not None:
            self._maker.of(pa.array(["a text"], pa.large_string()))
        # only segments of skewed values have their bits moved
        BitOrder.dealt().apply(fingerprints)
        try:
            with (
                temporary_folder() as folder,
                HammingIndex.create(
                    folder, k=k, named=named, background=False, memory_documents=_WARM // 4
                ) as tried,
            ):
                for some in (1, 1, 2, _WARM, 1, _WARM // 4, 2):
                    tried.check_and_add(fingerprints[:some], ids[:some] if named else None)
                    tried.query(fingerprints)
                    tried.remove(ids[some:])
                tried.compact()
                tried.query(fingerprints)
        except (MrDedupError, OSError) as error:
            raise NotWarmError(
                f"first calls may take seconds more, as compiled code is not loaded yet: {error}"
            ) from error

    def query(self, told: messages.Query) -> messages.Queries:
        """Say what is near fingerprints or texts."""
        if (told.fingerprints is None) == (told.texts is None):
            raise ValueError("expected either fingerprints or texts")
        if told.texts is not None:
            self._refuse_many(len(told.texts))
            values = self._made(told.texts)
        else:
            self._refuse_many(len(told.fingerprints or ()))
            values = parse_fingerprints(told.fingerprints or [])
        found = self.index.query(values, told.k, limit=told.limit, most=self.limits.matches)
        near = said_matches(found, len(values))
        return messages.Queries(
            [
                messages.Queried(said(value), matches)
                for value, matches in zip(values.tolist(), near, strict=True)
            ]
        )

    def check_and_add(self, told: messages.CheckAndAdd) -> messages.CheckedDocuments:
        """Say what is near documents and add them, with nothing in between."""
        values, ids = self._documents(told.documents)
        found = self.index.check_and_add(
            values, ids, told.k,
            limit=told.limit, only_new=told.only_new, most=self.limits.matches,
        )  # fmt: skip
        near = said_matches(found.matches, len(values))
        return messages.CheckedDocuments(
            [
                messages.CheckedDocument(each.id, said(value), added, matches)
                for each, value, added, matches in zip(
                    told.documents, values.tolist(), found.added.tolist(), near, strict=True
                )
            ]
        )

    def put(self, told: messages.Put) -> messages.Added:
        """Add documents, whatever is near them."""
        return messages.Added(self.index.add(*self._documents(told.documents)))

    def remove(self, told: messages.Remove) -> messages.Removed:
        """Remove documents."""
        self._refuse_many(len(told.ids))
        return messages.Removed(self.index.remove(told.ids).tolist())

    def remove_one(self, id: str) -> messages.Removed:
        """Remove a document; NotHeldError if it is not held."""
        if not self.index.remove([id]).all():
            raise NotHeldError(id)
        return messages.Removed([True])

    def stats(self) -> messages.Stats:
        """Say what the index holds, and takes."""
        told = dataclasses.asdict(self.index.stats())
        limits = {
            "max_batch": self.limits.batch,
            "max_body_bytes": self.limits.body_bytes,
            "max_matches": self.limits.matches,
        }
        return msgspec.convert({**told, "texts": self._maker is not None, **limits}, messages.Stats)

    def designs(self) -> messages.Designs:
        """Say which tables find what is near: those of the segments, and others for the same k.

        Where a segment has the bits in another order, masks are of the bits as they were.
        """
        held: dict[tuple[str, tuple[int, ...]], int] = {}
        for view in self.index.snapshot().views:
            sources, design = view.segment.order.sources, view.segment.design
            masks = tuple(_before(mask, sources) for mask in design.masks)
            key = design.name, masks
            held[key] = held.get(key, 0) + view.segment.documents
        for design in designs_for(self.index.k).values():
            if any(design.masks):
                held.setdefault((design.name, design.masks), 0)
        return messages.Designs(
            self.index.k,
            [
                messages.Design(name, documents, [f"{mask:016x}" for mask in masks])
                for (name, masks), documents in held.items()
            ],
        )

    def _documents(
        self, documents: Sequence[messages.Document]
    ) -> tuple[Fingerprints, list[str] | None]:
        """Return the fingerprints and the ids of documents."""
        self._refuse_many(len(documents))
        values = np.zeros(len(documents), np.uint64)
        of_texts = []
        for place, document in enumerate(documents):
            if (document.fingerprint is None) == (document.text is None):
                raise ValueError(f"document {place + 1}: expected either a fingerprint or a text")
            if (document.id is None) == self.index.named:
                wanted = "an id" if self.index.named else "no id"
                raise ValueError(f"document {place + 1}: each of this index has {wanted}")
            if document.fingerprint is not None:
                values[place] = parse_fingerprint(document.fingerprint)
            else:
                of_texts.append(place)
        if of_texts:
            texts = [documents[place].text or "" for place in of_texts]
            values[of_texts] = self._made(texts)
        if not self.index.named:
            return values, None
        return values, [document.id or "" for document in documents]

    def _made(self, texts: Sequence[str]) -> Fingerprints:
        if self._maker is None:
            raise ValueError(
                "text: the index does not know how its fingerprints are made; send fingerprints"
            )
        return self._maker.of(pa.array(texts, pa.large_string()))

    def _refuse_many(self, count: int) -> None:
        if count > self.limits.batch:
            raise ValueError(f"{count:,} at once; {self.limits.batch:,} are taken")


def _before(mask: int, sources: Sequence[int]) -> int:
    """Return the bits that an order moves to those of ``mask``."""
    return sum(1 << sources[bit] for bit in range(BITS) if mask >> bit & 1)
