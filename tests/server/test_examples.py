"""The example of several servers runs wherever it is started."""

import os
import subprocess
import sys
from pathlib import Path

from mr_dedup.index.http_token import VARIABLE

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "index_on_several_machines.py"


def test_servers_of_the_example_need_no_token_of_their_callers(tmp_path):
    folder = tmp_path / "a folder at home"
    folder.mkdir()
    variables = {VARIABLE: "short", "TMPDIR": str(folder), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, EXAMPLE], env=os.environ | variables, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "is 2 bits from page 3" in done.stdout
