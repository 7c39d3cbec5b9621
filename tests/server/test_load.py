"""32 clients for a minute: no error, nothing lost; rates and latencies are printed."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from mr_dedup.index.hamming_index import HammingIndex
from tests.server.running import without_token

ROOT = Path(__file__).parents[2]
PROCESSES, CLIENTS_EACH = 4, 8
SECONDS, ROUNDS = 5, 4

SERVE = "from mr_dedup.cli.main import main; raise SystemExit(main())"


def loaded(folder):
    """Milliseconds of each call, by kind, of clients of a server process."""
    server = subprocess.Popen(
        [sys.executable, "-c", SERVE, "serve", str(folder), "--port", "0"],
        stderr=subprocess.PIPE, text=True, env=without_token(),
    )  # fmt: skip
    try:
        line = server.stderr.readline()
        url = line.strip().rpartition(" at ")[2]
        assert url.startswith("http://"), line
        options = map(str, (CLIENTS_EACH, SECONDS, ROUNDS))
        command = [sys.executable, "-m", "tests.server.load", url, *options]
        clients = [
            subprocess.Popen(
                [*command, str(seed)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                text=True,
            )
            for seed in range(PROCESSES)
        ]  # fmt: skip
        assert [process.stdout.readline() for process in clients] == ["ready\n"] * PROCESSES
        began = time.monotonic() + 0.5
        for process in clients:
            print(began, file=process.stdin, flush=True)
        answers = [json.loads(process.communicate()[0]) for process in clients]
        server.send_signal(signal.SIGTERM)
        said = server.communicate(timeout=120)[1]
    finally:
        if server.poll() is None:
            server.kill()
            server.communicate()
    assert said == f"mr-dedup: stopped; {folder} is closed\n"
    assert [failure for answer in answers for failure in answer["failures"]] == []
    kinds = answers[0]["taken"]
    return {kind: [ms for answer in answers for ms in answer["taken"][kind]] for kind in kinds}


@pytest.mark.slow
def test_32_clients_for_a_minute(tmp_path):
    HammingIndex.create(tmp_path / "index").close()
    taken = loaded(tmp_path / "index")
    for kind, milliseconds in taken.items():
        median, late, latest = np.percentile(milliseconds, [50, 99, 100])
        rate, of_health = len(milliseconds) / SECONDS / ROUNDS, len(taken["health"])
        print(
            f"{kind}: {rate:,.0f} a second, {len(milliseconds) / of_health:.0%} of /health, "
            f"median {median:.1f} ms, 99th percentile {late:.1f} ms, longest {latest:.0f} ms"
        )
    with HammingIndex.open(tmp_path / "index") as index:
        assert len(index) == len(taken["check and add"]) > 0
