"""The implementations of an index, each made by a function of a folder, k and named."""

import contextlib

from mr_dedup.index.hamming_index import HammingIndex
from mr_dedup.index.http_client import HttpIndex
from mr_dedup.index.reader import IndexReader
from tests.index.memory_index import MemoryIndex
from tests.server.running import Running

# so that some hundred documents make segments, and these are merged
MEMORY_DOCUMENTS = 40


class Reopened:
    """An index on disk that is closed and opened anew after every change."""

    def __init__(self, folder, k, named):
        self._folder = folder
        self._index = HammingIndex.create(
            folder, k=k, named=named, memory_documents=MEMORY_DOCUMENTS
        )

    def _again(self):
        self._index.close()
        self._index = HammingIndex.open(self._folder, memory_documents=MEMORY_DOCUMENTS)

    def __getattr__(self, name):
        return getattr(self._index, name)

    def __len__(self):
        return len(self._index)

    def add(self, *arguments):
        done = self._index.add(*arguments)
        self._again()
        return done

    def remove(self, *arguments):
        done = self._index.remove(*arguments)
        self._again()
        return done

    def check_and_add(self, *arguments, **options):
        done = self._index.check_and_add(*arguments, **options)
        self._again()
        return done


class Compacted(Reopened):
    """An index on disk that is compacted after every change."""

    def _again(self):
        self._index.compact()


class ByHttp(HttpIndex):
    """An index on disk that a server has open."""

    def __init__(self, folder, k, named):
        self._index = fresh(folder, k, named)
        self._server = Running(self._index)
        super().__init__(self._server.url)

    def close(self):
        super().close()
        self._server.stop()
        self._index.close()


class ReadByAnother(Reopened):
    """An index on disk that is queried by a reader."""

    def __init__(self, folder, k, named):
        super().__init__(folder, k, named)
        self._reader = IndexReader.open(folder)

    def _again(self):
        pass

    def __len__(self):
        return len(self._reader)

    def query(self, *arguments, **options):
        return self._reader.query(*arguments, **options)

    def close(self):
        self._reader.close()
        self._index.close()


def in_memory(folder, k, named, **options):
    return MemoryIndex(k, named=named, **options)


def fresh(folder, k, named):
    return HammingIndex.create(folder, k=k, named=named, memory_documents=MEMORY_DOCUMENTS)


def unmerged(folder, k, named, **options):
    return HammingIndex.create(
        folder, k=k, named=named, memory_documents=MEMORY_DOCUMENTS, background=False, **options
    )


FORMS = {
    "in memory": in_memory,
    "on disk, fresh": fresh,
    "on disk, never merged": unmerged,
    "on disk, reopened": Reopened,
    "on disk, compacted": Compacted,
    "on disk, read by another": ReadByAnother,
}


# those in this process, which have snapshots
LOCAL_FORMS = tuple(FORMS)

FORMS["by HTTP"] = ByHttp


@contextlib.contextmanager
def made(form, folder, k=3, named=True, **options):
    index = FORMS[form](folder, k, named, **options)
    try:
        yield index
    finally:
        index.close()
