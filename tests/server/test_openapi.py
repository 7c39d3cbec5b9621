"""The OpenAPI description is true: what it allows is answered as it says, what not with a 4xx."""

import subprocess
import sys

import numpy as np
import pytest

from mr_dedup.index.hamming_index import HammingIndex
from mr_dedup.index.made_from import MadeFrom
from mr_dedup.server.service import Limits
from tests.server.running import TOKEN, running

EXAMPLES = 20


@pytest.mark.parametrize(("named", "token"), [(True, TOKEN), (False, None)])
def test_schemathesis_finds_nothing(named, token, tmp_path):
    made_from = MadeFrom() if named else None
    options = {"named": named, "made_from": made_from, "relaxed": True}
    with HammingIndex.create(tmp_path / "index", **options) as index:
        ids = [f"{number}" for number in range(50)] if named else None
        index.add(np.arange(50, dtype=np.uint64), ids)
        with running(index, Limits(batch=100), token) as server:
            # to JSON Schema 5.0 is an integer; a fingerprint that went through a float is refused
            options = (
                "--exclude-checks positive_data_acceptance --phases coverage,fuzzing --seed 1 "
                f"--max-examples {EXAMPLES} --warnings off --generation-database none --no-color"
            )
            command = [sys.executable, "-m", "schemathesis.cli", "run", *options.split()]
            command.append(f"{server.url}/openapi.json")
            if token:
                command += ["--header", f"Authorization: Bearer {token}"]
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=300, cwd=tmp_path
            )
            assert done.returncode == 0, done.stdout + done.stderr
