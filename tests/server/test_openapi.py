"""The OpenAPI description is correct: valid requests succeed, all others get a 4xx."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mr_dedup.index.hamming_index import HammingIndex
from mr_dedup.index.made_from import MadeFrom
from mr_dedup.server.service import Limits
from tests.server.running import TOKEN, running

EXAMPLES = 20
HOOKS = Path(__file__).with_name("schemathesis_hooks.py")


@pytest.mark.parametrize(("named", "token"), [(True, TOKEN), (False, None)])
def test_schemathesis_finds_nothing(named, token, tmp_path):
    made_from = MadeFrom() if named else None
    options = {"named": named, "made_from": made_from, "relaxed": True}
    with HammingIndex.create(tmp_path / "index", **options) as index:
        ids = [f"{number}" for number in range(50)] if named else None
        index.add(np.arange(50, dtype=np.uint64), ids)
        with running(index, Limits(max_batch=100), token) as server:
            options = (
                "--phases coverage,fuzzing --seed 1 "
                f"--max-examples {EXAMPLES} --warnings off --generation-database none --no-color"
            )
            command = [sys.executable, "-m", "schemathesis.cli", "run", *options.split()]
            command.append(f"{server.url}/openapi.json")
            if token:
                command += ["--header", f"Authorization: Bearer {token}"]
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=300,
                cwd=tmp_path,
                env=os.environ | {"SCHEMATHESIS_HOOKS": str(HOOKS)},
            )
            assert done.returncode == 0, done.stdout + done.stderr
