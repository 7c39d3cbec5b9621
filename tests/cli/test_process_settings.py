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


def shown(code):
    """What a program prints, in words."""
    words = [sys.executable, "-c", f"import sys; {code}"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


def test_a_command_sets_what_the_user_has_not():
    code = (
        "sys.argv = ['mr-dedup', 'plan', '--corpus', '10'];"
        "from mr_dedup.cli.main import main; main()"
    )
    assert printed(code) == "250000 1 mimalloc 100"
    assert printed(code, ARROW_DEFAULT_MEMORY_POOL="system") == "250000 1 system 100"


def test_pandas_is_imported_only_by_what_needs_it(tmp_path):
    """It is installed: PyArrow would import it with its first array."""
    document = tmp_path / "one.jsonl"
    document.write_text('{"id": "1", "text": "one"}')
    arguments = ["dedup", str(document), "-o", str(tmp_path / "out"), "-q"]
    show = "print('pandas' in sys.modules)"
    code = "from mr_dedup.cli.main import main; import pyarrow as pa; "
    own = f"{code}sys.argv = ['', *{arguments}]; print(main()); {show}; "
    later = "print(pa.array([1]).to_pandas().sum(), pa.array(pa.array([1]).to_pandas()).type)"
    assert shown(own + later) == ["0", "False", "1", "int64"]
    # a process of others is left as it is
    (tmp_path / "out").rename(tmp_path / "before")
    assert shown(f"{code}print(main({arguments})); {show}") == ["0", "True"]


def test_a_library_sets_nothing():
    code = "import mr_dedup.cli.main, mr_dedup.signatures.combined"
    assert printed(code) == printed("pass")
