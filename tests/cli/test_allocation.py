"""Memory that is used again: by what the system counts in a process of its own."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import resource
import numpy as np
from mr_dedup.cli.allocation import keep_memory

def page_faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

keep_memory()
before = page_faults()
for _ in range(20):
    arrays = [np.ones(1 << 20) for _ in range(8)]
    del arrays
print(page_faults() - before)
"""


def page_faults(**environment):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    environment = {**kept, "NUMPY_MADVISE_HUGEPAGE": "0", **environment}
    command = [sys.executable, "-c", PROGRAM]
    return int(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)


@pytest.mark.skipif("glibc" not in os.confstr("CS_GNU_LIBC_VERSION"), reason="mallopt is glibc's")
def test_what_was_freed_is_used_again_unless_the_user_says_otherwise():
    pages = 8 * (8 << 20) // os.sysconf("SC_PAGE_SIZE")
    assert page_faults() < 2 * pages
    assert page_faults(MALLOC_ARENA_MAX="8") > 10 * pages
