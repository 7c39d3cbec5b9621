"""32 clients for a minute: no error, nothing lost; latencies are printed."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mr_dedup.index.hamming_index import HammingIndex
from tests.server.running import without_token

ROOT = Path(__file__).parents[2]
PROCESSES, CLIENTS_EACH = 4, 8
SECONDS = 60

SERVE = "from mr_dedup.cli.main import main; raise SystemExit(main())"


def loaded(folder, seconds):
    """Milliseconds of each call, by kind, of clients of a server process."""
    server = subprocess.Popen(
        [sys.executable, "-c", SERVE, "serve", str(folder), "--port", "0"],
        stderr=subprocess.PIPE, text=True, env=without_token(),
    )  # fmt: skip
    try:
        line = server.stderr.readline()
        url = line.strip().rpartition(" at ")[2]
        assert url.startswith("http://"), line
        command = [sys.executable, "-m", "tests.server.load", url, str(CLIENTS_EACH), str(seconds)]
        clients = [
            subprocess.Popen([*command, str(seed)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
            for seed in range(PROCESSES)
        ]
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
    taken = loaded(tmp_path / "index", SECONDS)
    for kind, milliseconds in taken.items():
        median, late, latest = np.percentile(milliseconds, [50, 99, 100])
        print(
            f"{kind}: {len(milliseconds) / SECONDS:,.0f} a second, median {median:.1f} ms, "
            f"99th percentile {late:.1f} ms, longest {latest:.0f} ms"
        )
    with HammingIndex.open(tmp_path / "index") as index:
        assert len(index) == len(taken["check and add"]) > 0
