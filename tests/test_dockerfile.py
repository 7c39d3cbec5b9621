"""The Dockerfile, as far as no daemon is needed: what it copies, installs and runs."""

import configparser
import fnmatch
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def instructions():
    """The instructions as (name, arguments), lines that go on joined."""
    text = re.sub(r"^\s*#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [tuple(line.split(None, 1)) for line in lines if line.strip()]


def all_of(name):
    return [arguments for each, arguments in instructions() if each == name]


def copied():
    """The files and directories that are copied from the checkout, with where they go."""
    copies = [line.split() for line in all_of("COPY") if not line.startswith("--from")]
    return [(source, words[-1]) for words in copies for source in words[:-1]]


@pytest.fixture(scope="module")
def setup():
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def test_what_is_copied_exists_and_is_not_ignored():
    patterns = (ROOT / ".dockerignore").read_text().split()
    assert patterns[0] == "*"
    wanted = {line[1:] for line in patterns if line.startswith("!")}
    assert {source for source, _ in copied()} == wanted
    assert all((ROOT / source).exists() for source in wanted)
    assert fnmatch.fnmatch("mr_dedup/cli/__pycache__", patterns[-1])


def test_a_wheel_can_be_built_of_what_is_copied(tmp_path):
    """All that setuptools reads is there; compiling the kernels is left to make wheel."""
    for source, target in copied():
        path = ROOT / source
        to = tmp_path / target
        if path.is_dir():
            shutil.copytree(path, to, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            to.mkdir(exist_ok=True)
            shutil.copy(path, to)
    program = "from setuptools.build_meta import *; print(prepare_metadata_for_build_wheel('out'))"
    (tmp_path / "out").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    metadata = tmp_path / "out" / done.stdout.splitlines()[-1] / "METADATA"
    assert "mr_dedup finds the near-duplicates in a web crawl" in metadata.read_text()
    named = re.findall(r'ROOT / "(\w+)" / "(\S+)"', (ROOT / "setup.py").read_text())
    assert named
    assert all((tmp_path / folder / name).is_file() for folder, name in named)


def test_extras_and_commands_are_those_of_the_package(setup):
    (extras,) = (line.partition("=")[2] for line in all_of("ARG") if line.startswith("EXTRAS"))
    assert set(extras.split(",")) <= set(setup["options.extras_require"])
    (entry,) = all_of("ENTRYPOINT")
    (command,) = json.loads(entry)
    scripts = setup["options.entry_points"]["console_scripts"]
    assert f"\n{command} = " in scripts
    (python,) = (line.partition("=")[2] for line in all_of("ARG") if line.startswith("PYTHON"))
    assert f"Programming Language :: Python :: {python}" in setup["metadata"]["classifiers"]


def test_it_does_not_run_as_root():
    names = [name for name, _ in instructions()]
    (user,) = all_of("USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    # in the last stage
    assert names.index("USER") > len(names) - 1 - names[::-1].index("FROM")
    user_id = user.partition(":")[0]
    assert f"--uid {user_id} " in all_of("RUN")[-1]


def test_both_stages_have_the_environment_at_the_same_path():
    (copy,) = (line for line in all_of("COPY") if line.startswith("--from=build"))
    _, source, target = copy.split()
    assert source == target
    assert f"python -m venv {source} " in " ".join(all_of("RUN"))
    assert all_of("ENV") == [f"PATH={target}/bin:$PATH"]
    build, final = all_of("FROM")
    # so that the Python that the environment links to is there
    assert build == "python:${PYTHON} AS build"
    assert final == "python:${PYTHON}-slim"
