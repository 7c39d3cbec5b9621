"""Documents of clusters, the obvious way: one object each, and columns made of them."""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from mr_dedup.clusters.documents import ClusteredDocuments
from mr_dedup.features.text_hashes import number_texts, text_hashes


@dataclass(frozen=True)
class Page:
    id: str = "page"
    text: str = "text"
    file: int = 0
    place: int = 0
    cluster: int = 0
    fingerprint: int = 0
    exists: bool = True
    fields: dict[str, str] = field(default_factory=dict, hash=False)


def columns(pages):
    """The pages as ClusteredDocuments, and their texts, the text of each number once."""
    texts = pa.array([page.text for page in pages], pa.large_string())
    numbers, firsts = number_texts(text_hashes(texts))
    names = sorted({name for page in pages for name in page.fields})
    fields = {
        name: pa.array([page.fields.get(name) for page in pages], pa.large_string())
        for name in names
    }

    def whole(name, dtype=np.int64):
        return np.array([getattr(page, name) for page in pages], dtype)

    documents = ClusteredDocuments(
        ids=pa.array([page.id for page in pages], pa.large_string()),
        files=whole("file"),
        positions=whole("place"),
        text_bytes=np.array([len(page.text.encode()) for page in pages], np.int64),
        clusters=whole("cluster", np.uint64),
        fingerprints=whole("fingerprint", np.uint64),
        has_fingerprint=whole("exists", np.bool_),
        texts=numbers,
        fields=pa.table(fields) if names else None,
    )
    return documents, texts.take(pa.array(firsts))
