"""Every command and script of the README and docs, run as it stands there.

What a command prints is what the page shows, but for seconds and rates.
"""

import doctest
import http.client
import io
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

from data_gen.cli import command as data_gen_command
from mr_dedup.cli import main as mr_dedup_command
from tests.storage import servers, stores

ROOT = Path(__file__).parent.parent
# but what make docs makes
MADE = re.compile(r"docs/_build/|docs/reference/commands/.*-")
PAGES = {
    name: path.read_text()
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if not MADE.match(name := str(path.relative_to(ROOT)))
}
COMMANDS = PAGES["docs/commands.md"]
COMMAND_PAGES = {
    *(f"mr-dedup-{name}" for name in mr_dedup_command.COMMANDS),
    *(f"data-gen-{name}" for name in data_gen_command.COMMANDS),
}

# what differs from run to run: seconds and rates
TIMES = re.compile(
    r"\b[\d.,]+(?= s\b| million fingerprints a second| MB of text a second| URLs a second)"
)


def sessions(text):
    """Yield the ```console blocks of a page as lists of (command, expected lines)."""
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
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
def bucket():
    """An object store with an empty bucket ``crawl``; the variables by which it is found."""
    with servers.moto() as server:
        servers.request("PUT", f"{server}/crawl", headers=stores.AUTHORIZED)
        yield {
            "AWS_ENDPOINT_URL": server,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
        }


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A directory for each page: its later blocks use what its earlier ones made."""
    return {page: tmp_path_factory.mktemp(Path(page).stem) for page in PAGES}


@pytest.mark.parametrize(
    ("page", "number"),
    [(page, number) for page in PAGES for number, _ in enumerate(sessions(PAGES[page]))],
)
def test_sessions_print_what_the_page_shows(page, number, folders, request):
    variables = environment()
    if page == "docs/stores.md":
        variables |= request.getfixturevalue("bucket")
    for command, expected in list(sessions(PAGES[page]))[number]:
        done = subprocess.run(
            command, shell=True, cwd=folders[page], env=variables, check=False,
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


@pytest.fixture(scope="module")
def named_files(tmp_path_factory):
    """What the commands of methods and tutorials name."""
    folder = tmp_path_factory.mktemp("named")
    for command in (
        "data-gen fingerprints --queries 100 --corpus 10000 -k 3 --duplicates-per-query 2"
        " --seed 1 --chunk-size 40KB --out longs",
        "mv longs/corpus-* . && mv longs/queries.longs new.longs",
        "data-gen documents --documents 100 --duplicates-per-document 2 --seed 1 --out pages",
        "head -n 20 pages/documents-00000.jsonl > new.jsonl",
        'sed \'s/"text"/"question"/\' new.jsonl > exam.jsonl',
        "for n in 1 2 3; do mkdir crawl-$n; ln pages/documents-*.jsonl crawl-$n/a.jsonl; done",
        "mkdir week2 && tail -n 100 pages/documents-00000.jsonl > week2/pages.jsonl",
        "data-gen urls --pages 100 --visits 300 --seed 1 --out visits",
        "cat visits/visits-* | tee links-1.txt > links.txt && head -n 9 links.txt > gone.txt",
    ):
        subprocess.run(command, shell=True, cwd=folder, env=environment(), check=True)
    return folder


@pytest.mark.parametrize("page", [page for page in PAGES if "```bash" in PAGES[page]])
def test_commands_run_in_a_directory_with_what_they_name(page, named_files, tmp_path):
    shutil.copytree(named_files, tmp_path, dirs_exist_ok=True)
    block = "\n".join(re.findall(r"```bash\n(.*?)```", PAGES[page], re.DOTALL))
    commands = block.replace("\\\n", "").splitlines()
    # the one needs a cluster, the other runs until it is stopped; both are tested by themselves
    others = [each for each in commands if "hdfs:///" in each or each == "mr-dedup serve index"]
    assert len(others) == 2 * (page == "docs/methods/batch_and_online.md")
    for command in filter(None, commands):
        if command not in others:
            command = command.replace("distance A B", "distance 00000000 00000001")
            done = subprocess.run(
                command, shell=True, cwd=tmp_path, env=environment(), check=False,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip
            assert done.returncode == 0, (command, done.stdout)


@pytest.mark.parametrize("page", [page for page in PAGES if "```pycon" in PAGES[page]])
def test_python_sessions_print_what_the_page_shows(page, folders, monkeypatch):
    """All of a page are one session, after those of commands."""
    monkeypatch.chdir(folders[page])
    code = "\n".join(re.findall(r"```pycon\n(.*?)```", PAGES[page], re.DOTALL))
    examples = doctest.DocTestParser().get_doctest(code, {}, page, page, 0)
    assert examples.examples
    printed = io.StringIO()
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(examples, out=printed.write)
    assert not runner.failures, printed.getvalue()


def test_the_server_responds_to_the_documented_call(folders):
    """On the index that the sessions have made, and on a free port."""
    block = re.search(r"```\n(mr-dedup serve .*?)```", COMMANDS, re.DOTALL).group(1)
    serve, call = block.replace("\\\n", "").splitlines()
    curl, quiet, address, *options = shlex.split(call)
    assert (curl, quiet, options[::2]) == ("curl", "-s", ["-H", "-d"])
    header, body = options[1::2]
    server = subprocess.Popen(
        [*shlex.split(serve, comments=True), "--port", "0"],
        cwd=folders["docs/commands.md"], env=environment(),
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        host, path = address.split(":8640")
        port = int(server.stderr.readline().rpartition(":")[2])
        connection = http.client.HTTPConnection(host, port, timeout=60)
        connection.request("POST", path, body, dict([header.split(": ")]))
        with connection.getresponse() as response:
            (result,) = json.load(response)["results"]
        connection.close()
        expected = {"id": "https://a.example/", "added": True, "matches": []}
        assert expected.items() <= result.items()
        server.send_signal(signal.SIGTERM)
        log = server.communicate(timeout=60)[1]
        assert (server.returncode, log) == (0, "mr-dedup: stopped; index is closed\n")
    finally:
        server.kill()
        server.communicate()


@pytest.mark.parametrize(
    "script",
    re.findall(r"```python\n(.*?)```", PAGES["README.md"] + COMMANDS, re.DOTALL),
)
def test_scripts_run(script, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], cwd=tmp_path, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("[")


def test_named_make_targets_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page, text in PAGES.items():
        named = set(re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE))
        assert named <= targets, page
        assert page != "README.md" or {"demo", "test"} <= named


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files_and_headings(page):
    for target, heading in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", PAGES[page]):
        if "://" not in target:
            path = ((ROOT / page).parent / target).resolve() if target else ROOT / page
            made = MADE.match(str(path.relative_to(ROOT))) and path.stem in COMMAND_PAGES
            assert path.exists() or made, target
            if heading:
                assert heading in anchors(path.read_text()), (target, heading)


def anchors(text):
    """The names that GitHub gives the headings of a page."""
    titles = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_named_options_exist():
    """An option on a page is one of a command, of a job, or of a program named beside it."""
    text = "".join(
        path.read_text()
        for folder in ("mr_dedup", "data_gen", "bench")
        for path in (ROOT / folder).rglob("*.py")
    )
    options = set(re.findall(r"[\"'](--[a-z][a-z-]+)[\"']", text))
    others = {"--help", "--target", "--python", "--long", "--cleanup-on-failure", "--py-files"}
    # of spark-submit, aws and gcloud
    others |= {"--archives", "--cluster", "--cluster-id", "--conf", "--deploy-mode"}
    others |= {"--properties", "--region", "--steps"}
    mrjob = {"--no-conf", "--no-bootstrap-mrjob"}
    for page, text in PAGES.items():
        named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))
        assert named <= options | others | mrjob, (page, named - options - others - mrjob)


def test_the_readme_is_short():
    assert len(PAGES["README.md"].splitlines()) <= 150


def test_the_commands_are_installed():
    assert shutil.which("mr-dedup", path=str(Path(sys.executable).parent))
    assert shutil.which("data-gen", path=str(Path(sys.executable).parent))
