"""Every command of the README, run as it stands there; what it prints is what the README shows."""

import http.client
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()

# what differs from run to run: seconds and rates
TIMES = re.compile(
    r"\b[\d.,]+(?= s\b| million fingerprints a second| MB of text a second| URLs a second)"
)


def sessions():
    """The ```console blocks, as lists of (command, expected output)."""
    for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL):
        commands = []
        for line in block.splitlines():
            if line.startswith("$ "):
                commands.append((line[2:], []))
            elif commands and commands[-1][0].endswith("\\"):
                command, output = commands.pop()
                commands.append((command[:-1] + line.strip(), output))
            else:
                commands[-1][1].append(line)
        yield commands


def environment():
    """Variables by which this Python's commands are found."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One folder for all blocks: a later one uses what an earlier one made."""
    return tmp_path_factory.mktemp("readme")


@pytest.mark.parametrize("number", range(len(list(sessions()))))
def test_the_readmes_sessions_are_what_happens(number, folder):
    commands = list(sessions())[number]
    for command, expected in commands:
        done = subprocess.run(
            command, shell=True, cwd=folder, env=environment(), check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        assert done.returncode == 0, (command, done.stdout)
        printed = TIMES.sub("_", done.stdout).splitlines()
        wanted = [TIMES.sub("_", line) for line in expected]
        if "…" in wanted:
            head = wanted.index("…")
            tail = len(wanted) - head - 1
            assert len(printed) >= head + tail, (command, done.stdout)
            printed = [*printed[:head], "…", *printed[len(printed) - tail :]]
        assert printed == wanted, command


def test_the_readmes_server_answers_the_readmes_call(folder):
    """On the index that the sessions have made, and on a port that is free."""
    block = re.search(r"```\n(mr-dedup serve .*?)```", README, re.DOTALL).group(1)
    serve, call = block.replace("\\\n", "").splitlines()
    curl, quiet, address, *options = shlex.split(call)
    assert (curl, quiet, options[::2]) == ("curl", "-s", ["-H", "-d"])
    header, body = options[1::2]
    server = subprocess.Popen(
        [*shlex.split(serve, comments=True), "--port", "0"], cwd=folder, env=environment(),
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        host, path = address.split(":8640")
        port = int(server.stderr.readline().rpartition(":")[2])
        connection = http.client.HTTPConnection(host, port, timeout=60)
        connection.request("POST", path, body, dict([header.split(": ")]))
        with connection.getresponse() as answer:
            (result,) = json.load(answer)["results"]
        connection.close()
        told = {"id": "https://a.example/", "added": True, "matches": []}
        assert told.items() <= result.items()
        server.send_signal(signal.SIGTERM)
        said = server.communicate(timeout=60)[1]
        assert (server.returncode, said) == (0, "mr-dedup: stopped; index is closed\n")
    finally:
        server.kill()
        server.communicate()


@pytest.mark.parametrize("script", re.findall(r"```python\n(.*?)```", README, re.DOTALL))
def test_the_readmes_scripts_run(script, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], cwd=tmp_path, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("[")


def test_the_readme_names_make_targets_that_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", README, re.MULTILINE))
    assert {"demo", "test"} <= named <= targets


def test_the_readmes_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if "://" not in target:
            assert (ROOT / target).exists(), target


def test_the_commands_are_installed():
    assert shutil.which("mr-dedup", path=str(Path(sys.executable).parent))
    assert shutil.which("data-gen", path=str(Path(sys.executable).parent))
