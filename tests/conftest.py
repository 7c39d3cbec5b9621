"""Profiles of Hypothesis; small corpora on disk, with the answer brute force gives."""

import gc
import os
import random
import signal
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from mr_dedup.kernels.library import library_folder
from tests.oracles import neighbour, pairs_within, result_lines

# the same examples in each run, at any speed; HYPOTHESIS_PROFILE=thorough draws others, and more
settings.register_profile("ci", derandomize=True, deadline=None, max_examples=100)
settings.register_profile(
    "thorough", derandomize=False, deadline=None, max_examples=1000, print_blob=True
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


# once, for the processes that tests start, whatever their home
os.environ["MR_DEDUP_CACHE_DIR"] = str(library_folder().parent)
# reports have the time at which they were made: equal runs are to have equal ones
os.environ["SOURCE_DATE_EPOCH"] = "1715938212"


def pytest_collection_finish():
    """Keep modules and tests out of garbage collections, here and in tasks that are forked.

    A collection in a forked task writes to every object that it looks at, and so copies its page.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def interrupts_that_reach_commands():
    """Undo what a shell does to jobs in the background: they ignore Ctrl-C, and so do children."""
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, usual)


# without these it asks for what has nothing to do with the page
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync",
         "--disable-component-update", "--disable-quic"]  # fmt: skip


@pytest.fixture(scope="module")
def chromium():
    """Debian's Chromium, without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=QUIET)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def cluster():
    """The Hadoop of ``make hadoop-up`` if it is up, else one for these tests alone."""
    from tests.engines.hadoop.cluster import DAEMONS, Cluster, default_folder

    cluster = Cluster(default_folder())
    if len(cluster.running()) == len(DAEMONS):
        yield cluster
        return
    with tempfile.TemporaryDirectory(prefix="mr_dedup-hadoop-") as folder:
        cluster = Cluster(Path(folder) / "cluster")
        cluster.up()
        try:
            yield cluster
        finally:
            cluster.down()


@dataclass(frozen=True)
class Corpus:
    """Files of fingerprints in a folder, and the lines a query over them must print."""

    folder: Path
    corpus: list[int]
    queries: list[int]

    def lines(self, k: int = 3, with_distance: bool = False) -> str:
        return result_lines(pairs_within(self.corpus, self.queries, k), with_distance)

    def split(self, parts: int) -> list[str]:
        """Write the corpus as ``parts`` files of longs; return their names."""
        names = []
        for number, part in enumerate(
            np.array_split(np.array(self.corpus, dtype=np.uint64), parts)
        ):
            path = self.folder / f"part-{parts}-{number}.longs"
            path.write_bytes(part.astype(">u8").tobytes())
            names.append(str(path))
        return names


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> Corpus:
    """3,000 fingerprints, 200 queries, neighbours of each at 0 to 5 bits, and repeats."""
    rng = random.Random(42)
    queries = [rng.getrandbits(64) for _ in range(200)] + [0, (1 << 64) - 1, 1 << 63]
    corpus = [rng.getrandbits(64) for _ in range(1500)]
    corpus += [neighbour(rng, query, distance) for query in queries for distance in range(6)]
    corpus += corpus[:200]
    rng.shuffle(corpus)
    folder = tmp_path_factory.mktemp("corpus")
    for name, values in (("queries", queries), ("corpus", corpus)):
        longs = np.array(values, dtype=np.uint64).astype(">u8").tobytes()
        (folder / f"{name}.longs").write_bytes(longs)
    return Corpus(folder, corpus, queries)
