"""Document frequencies of jobs: read once a process, from the file that is there now."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from mr_dedup.features.document_frequencies import DocumentFrequencies
from mr_dedup.features.options import FeatureOptions
from mr_dedup.jobs import frequencies
from mr_dedup.jobs.frequencies import read_frequencies


def write(path, documents):
    hashes = np.arange(3, dtype=np.uint64)
    counts = np.full(3, 2, np.uint64)
    found = DocumentFrequencies(FeatureOptions("words", 1).unweighted, documents, 1, hashes, counts)
    found.write(path, overwrite=True)


def test_two_files_are_read_once_by_all_threads(tmp_path, monkeypatch):
    paths = [str(tmp_path / name) for name in ("features.idf", "keywords.idf")]
    for number, path in enumerate(paths):
        write(path, 10 + number)
    reads = []
    usual = DocumentFrequencies.read

    def read(path):
        reads.append(str(path))
        return usual(path)

    monkeypatch.setattr(frequencies.DocumentFrequencies, "read", read)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(read_frequencies, paths * 20))
    assert [each.documents for each in found] == [10, 11] * 20
    assert sorted(reads) == sorted(paths)
    # another file of this name
    write(paths[0], 12)
    os.utime(paths[0], ns=(1, 1))
    assert read_frequencies(paths[0]).documents == 12
    assert read_frequencies(None) is None
