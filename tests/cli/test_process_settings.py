"""Settings of a process that runs a command, which no library changes."""

import os
import subprocess
import sys

SHOW = (
    "print(gc.get_threshold()[0], os.environ.get('OPENBLAS_NUM_THREADS'),"
    "os.environ.get('ARROW_DEFAULT_MEMORY_POOL'), os.environ.get('MIMALLOC_PURGE_DELAY'))"
)
NAMES = ("OPENBLAS_NUM_THREADS", "ARROW_DEFAULT_MEMORY_POOL", "MIMALLOC_PURGE_DELAY")


def printed(code, **environment):
    usual = {name: value for name, value in os.environ.items() if name not in NAMES}
    done = subprocess.run(
        [sys.executable, "-c", f"import gc, os, sys; {code}; {SHOW}"],
        capture_output=True, text=True, check=True, env={**usual, **environment},
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.splitlines()[-1]


def test_a_command_sets_what_the_user_has_not():
    code = (
        "sys.argv = ['mr-dedup', 'plan', '--corpus', '10'];"
        "from mr_dedup.cli.main import main; main()"
    )
    assert printed(code) == "250000 1 mimalloc 1000"
    assert printed(code, ARROW_DEFAULT_MEMORY_POOL="system") == "250000 1 system 1000"


def test_a_library_sets_nothing():
    code = "import mr_dedup.cli.main, mr_dedup.signatures.combined"
    assert printed(code) == printed("pass")
