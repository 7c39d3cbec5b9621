"""A loss of power at any system call: nothing acknowledged is lost, and no index is damaged."""

import random
import shutil

import numpy as np
import pytest

from mr_dedup.index.hamming_index import HammingIndex
from mr_dedup.index.integrity import verify
from tests.index.disk_model import Disk

MEMORY_DOCUMENTS = 40
MOMENTS = 12
"""At one of so many moments around system calls the power is lost, as a rule."""


class Losses:
    """Looks at what losses of power leave of an index, as ``disk_model.Disk`` calls it."""

    def __init__(self, seed, folder):
        self.rng = random.Random(seed)
        self.folder = folder
        self.kept = [{}]
        """What may be there: what was acknowledged, or that and the change that is being made.

        Of a relaxed index, what was there after any change.
        """
        self.states = self.cut = 0

    def moment(self, disk):
        if self.rng.randrange(MOMENTS):
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        disk.after_loss(self.rng, self.folder)
        self.states += 1
        with HammingIndex.open(self.folder, background=False) as index:
            self.cut += index.cut_bytes > 0
            assert documents(index) in self.kept
        assert not list(verify(self.folder))


def documents(index):
    """All documents of an index by id, whose fingerprints have 8 equal bits in front."""
    every = np.arange(256, dtype=np.uint64) * np.uint64(0x0101010101010101)
    return {match.id: match.fingerprint for match in index.query(every)}


def changed(rng, index, documents, numbers):
    """Choose a change; return what is there after it, and what makes it."""
    how = rng.random()
    if how < 0.6 or len(documents) < 20:
        ids = [f"page {next(numbers)}" for _ in range(rng.choice([1, 1, 1, 3, 30, 60]))]
        if documents and rng.random() < 0.2:
            ids = rng.choices(sorted(documents), k=len(ids))
        values = [rng.randrange(256) * 0x0101010101010101 for _ in ids]
        after = {**documents, **dict(zip(ids, values, strict=True))}
        return after, lambda: index.add(np.array(values, np.uint64), ids)
    if how < 0.93:
        ids = rng.sample(sorted(documents), rng.choice([1, 3, 15]))
        after = {id: value for id, value in documents.items() if id not in ids}
        return after, lambda: index.remove(ids)
    return documents, index.compact


def run(tmp_path, monkeypatch, seed, states, *, relaxed):
    """Change an index until the power was lost so often."""
    losses = Losses(seed, tmp_path / "left")
    disk = Disk(tmp_path / "index", monkeypatch, losses.moment)
    numbers = iter(range(1 << 62))
    kept = {}
    with HammingIndex.create(
        disk.folder, k=2, relaxed=relaxed, background=False, memory_documents=MEMORY_DOCUMENTS
    ) as index:
        disk.start()
        while losses.states < states:
            after, change = changed(losses.rng, index, kept, numbers)
            losses.kept = [*losses.kept, after] if relaxed else [kept, after]
            change()
            losses.kept = losses.kept if relaxed else [after]
            kept = after
        disk.close()
        assert documents(index) == kept
    assert losses.cut


@pytest.mark.parametrize("relaxed", [False, True])
def test_a_loss_of_power(tmp_path, monkeypatch, relaxed):
    run(tmp_path, monkeypatch, 1, 100, relaxed=relaxed)


@pytest.mark.slow
@pytest.mark.parametrize("relaxed", [False, True])
@pytest.mark.parametrize("seed", [10, 11])
def test_many_losses_of_power(tmp_path, monkeypatch, seed, relaxed):
    run(tmp_path, monkeypatch, seed, 1000, relaxed=relaxed)
