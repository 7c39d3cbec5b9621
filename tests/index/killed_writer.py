"""Processes that change an index until they are killed, saying before and after what they do.

``python -m tests.index.killed_writer FOLDER LOG`` loads all compiled code, and for each line FIRST
that it is given forks a process, whose number it prints, and how it ended. That does work number
FIRST, FIRST + 1, … on the index in FOLDER, some of it in groups. Each is a line ``begin N`` in LOG,
and when it was acknowledged ``end N``.
"""

import contextlib
import os
import random
import sys
import tempfile
import traceback
from pathlib import Path

import numpy as np

from mr_dedup.index.hamming_index import HammingIndex
from tests.index.memory_index import MemoryIndex

UNIVERSE = 1500
MEMORY_DOCUMENTS = 60
K = 3


def work(number):
    """What is done as work ``number``: a kind, ids, and fingerprints, some of them near others."""
    rng = random.Random(number)
    kind = rng.choices(["add", "remove", "check", "compact"], [55, 30, 13, 2])[0]
    size = rng.choice([1, 1, 5, 40, 200])
    ids = [f"page {rng.randrange(UNIVERSE)}" for _ in range(size)]
    values = [rng.randrange(200) << 40 ^ 1 << rng.randrange(64) for _ in ids]
    return kind, ids, values


def group_size(number):
    """How much work is done as one group, from ``number`` on."""
    return random.Random(~number).choice([1, 1, 2, 7])


def do(index, number):
    """Do work ``number`` on an index of any form."""
    kind, ids, values = work(number)
    fingerprints = np.array(values, dtype=np.uint64)
    if kind == "add":
        index.add(fingerprints, ids)
    elif kind == "remove":
        index.remove(ids)
    elif kind == "check":
        index.check_and_add(fingerprints, ids, only_new=True)
    elif hasattr(index, "compact"):
        index.compact()


def load_kernels():
    """Have all compiled code loaded: it takes longer than what is to be killed."""
    do(MemoryIndex(K), 1)
    with tempfile.TemporaryDirectory() as folder:
        index = HammingIndex.create(Path(folder, "index"), k=K, memory_documents=MEMORY_DOCUMENTS)
        with index:
            for number in range(30):
                do(index, number)
            index.compact()


def change(folder, log, first):
    with HammingIndex.open(folder, memory_documents=MEMORY_DOCUMENTS) as index:
        say = os.open(log, os.O_WRONLY | os.O_APPEND)
        number = first
        while True:
            group = range(number, number + group_size(number))
            with index.group() if len(group) > 1 else contextlib.nullcontext():
                for each in group:
                    os.write(say, b"begin %d\n" % each)
                    do(index, each)
            for each in group:
                os.write(say, b"end %d\n" % each)
            number = group.stop


def main(folder, log):
    load_kernels()
    for line in sys.stdin:
        process = os.fork()
        if not process:
            try:
                change(folder, log, int(line))
            finally:
                traceback.print_exc()
                os._exit(1)
        print(process, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
