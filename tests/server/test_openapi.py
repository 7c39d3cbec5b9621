"""The OpenAPI description is correct: valid requests succeed, all others get a 4xx."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.index.fingerprint_options import FingerprintOptions
from mr_dedup.index.hamming_index import HammingIndex
from mr_dedup.index.http_messages import parse_fingerprint
from mr_dedup.index.state import parsed_fingerprints
from mr_dedup.server import openapi
from mr_dedup.server.service import Limits
from tests.server.running import TOKEN, running

EXAMPLES = 20
HOOKS = Path(__file__).with_name("schemathesis_hooks.py")


def accepts(read, text):
    try:
        read(text)
    except ValueError:
        return False
    return True


EDGES = [edge + step for edge in (0, 1 << 63, 1 << 64, 10**18, 10**19) for step in range(-3, 4)]


@given(
    st.one_of(
        st.builds(
            lambda sign, zeros, number: f"{sign}{'0' * zeros}{number}",
            st.sampled_from(["", "-", "+", "--"]),
            st.integers(0, 3),
            st.sampled_from(EDGES).map(abs) | st.integers(0, 1 << 70),
        ),
        st.from_regex(r"0[xX][0-9a-fA-F]{0,18}", fullmatch=True),
        st.from_regex(r"-?[0-9]{15,21}", fullmatch=True),
    )
)
def test_patterns_are_those_of_what_the_server_accepts(text):
    """Clients that are generated from the description check requests by its patterns."""
    pattern = openapi._FINGERPRINT["anyOf"][1]["pattern"]
    assert bool(re.search(pattern, text)) == accepts(parse_fingerprint, text)
    pattern = openapi._id(SimpleNamespace(named=False))["pattern"]
    assert bool(re.search(pattern, text)) == accepts(lambda id: parsed_fingerprints([id]), text)


@pytest.mark.parametrize(("named", "token"), [(True, TOKEN), (False, None)])
def test_schemathesis_finds_nothing(named, token, tmp_path):
    made_from = FingerprintOptions() if named else None
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
