"""Commands that are interrupted: they end soon, leave no temporary files, and can be resumed."""

import errno
import json
import os
import random
import re
import signal
import subprocess
import sys

import pytest

from tests.cli.documents import files_of, made_up_documents, write_jsonl
from tests.cli.running import Command

IN_A_KERNEL = """
import hashlib, sys, threading
from mr_dedup.cli import main
from mr_dedup.pipeline import dedup_stages
def kernel(*arguments):
    # C code without Python's lock, as a kernel is, and without an end
    threading.Timer(0.3, print, ["now"], {"flush": True}).start()
    hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)
dedup_stages.cluster = kernel
main.command()
"""


@pytest.mark.parametrize(
    ("runner", "number"),
    [
        ("memory", signal.SIGINT),
        ("inline", signal.SIGTERM),
        pytest.param("local", signal.SIGINT, marks=pytest.mark.slow),
    ],
)
def test_dedup_ends_in_a_kernel_and_is_resumed(tmp_path, number, runner):
    path = write_jsonl(tmp_path / "docs.jsonl", made_up_documents(1))
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    words = ["dedup", path, "-o", tmp_path / "out", "-r", runner]
    process = subprocess.Popen(
        [sys.executable, "-c", IN_A_KERNEL, *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "now\n"
    # a second run meanwhile
    command = Command().program(*words)
    for more in [], ["--resume"], ["--overwrite"]:
        second = subprocess.run([*command, *more], capture_output=True, env=environment, text=True)
        expected = f"mr-dedup: error: {tmp_path / 'out'}: process {process.pid} is writing it\n"
        assert (second.returncode, second.stderr) == (2, expected)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (
        130,
        f"mr-dedup: {tmp_path / '.out.unfinished'}: completed stages; --resume continues\n"
        "mr-dedup: error: interrupted\n",
    )
    assert list(temporary.iterdir()) == []
    assert sorted(p.name for p in tmp_path.iterdir()) == [".out.unfinished", "docs.jsonl", "tmp"]
    subprocess.run([*command, "--resume"], check=True, capture_output=True, env=environment)
    subprocess.run(
        [*command[:6], tmp_path / "other", *command[7:]], check=True, capture_output=True
    )
    assert files_of(tmp_path / "out") == files_of(tmp_path / "other")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["docs.jsonl", "other", "out", "tmp"]


def test_compare_is_alone_with_its_folder(tmp_path):
    from mr_dedup.cli.main import main
    from mr_dedup.files.output_folders import locked

    with locked(tmp_path / "out", print):
        words = ["compare", "none.jsonl", "--truth", "none.tsv", "-o", str(tmp_path / "out")]
        assert main(words) == 2
    assert list(tmp_path.iterdir()) == []


def test_dedup_without_locks_warns_once(tmp_path, tmp_path_factory, monkeypatch, capsys):
    from mr_dedup.cli.main import main

    def flock(descriptor, operation):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr("fcntl.flock", flock)
    # other processes, which have locks, would take its temporary directory for an abandoned one
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("temporary")))
    path = write_jsonl(tmp_path / "docs.jsonl", made_up_documents(1)[:50])
    out = tmp_path / "out"
    assert main(["dedup", str(path), "-o", str(out)]) == 0
    warnings = [line for line in capsys.readouterr().err.splitlines() if "locked" in line]
    assert warnings == [
        f"mr-dedup: warning: {out} cannot be locked here (Function not implemented): "
        "do not write it twice at once"
    ]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["docs.jsonl", "out"]


# signals at random moments


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Inputs over which commands take seconds, much of it in kernels."""
    folder = tmp_path_factory.mktemp("inputs")
    rng = random.Random(1)
    words = [f"w{number}" for number in range(30_000)]
    template = rng.choices(words, k=200)
    with (folder / "template.jsonl").open("w") as file:
        for number in range(20_000):
            text = list(template)
            for position in rng.sample(range(200), rng.randint(3, 9)):
                text[position] = rng.choice(words)
            file.write(json.dumps({"id": f"t{number}", "text": " ".join(text)}) + "\n")
    (folder / "uniform.longs").write_bytes(rng.randbytes(8 << 20))
    lines = (f"https://{rng.randrange(5000)}.example/{n}\n" for n in range(300_000))
    (folder / "urls.txt").write_text("".join(lines))
    return folder


COMMANDS = {
    "dedup": "dedup template.jsonl -o OUT",
    "dedup local": "dedup template.jsonl -o OUT -r local",
    "dedup simhash": "dedup template.jsonl -o OUT --method simhash",
    "pairs": "pairs uniform.longs -k 10 -o OUT",
    "pairs local": "pairs uniform.longs -k 8 -o OUT -r local",
    "pairs of documents": "pairs template.jsonl --method minhash -o OUT",
    "query": "query uniform.longs --queries uniform.longs -k 6 -o OUT",
    "fingerprint": "fingerprint template.jsonl -o OUT.parquet",
    "idf": "idf template.jsonl -o OUT.parquet",
    "convert": "convert uniform.longs -o OUT.fpz",
    "index": "index create OUT template.jsonl",
    "urls": "urls add --store OUT urls.txt",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_ends_within_seconds_of_a_signal(inputs, tmp_path, name):
    rng = random.Random(name)
    words = Command().program(*COMMANDS[name].split())
    (written,) = (word for word in words if word.startswith("OUT"))
    words = [str(tmp_path / word) if word.startswith("OUT") else word for word in words]
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    interrupted = 0
    for _ in range(12):
        process = run(words, inputs, environment)
        try:
            process.communicate(timeout=rng.uniform(0.5, 5))
            break
        except subprocess.TimeoutExpired:
            process.send_signal(rng.choice([signal.SIGINT, signal.SIGTERM]))
        # two seconds of a machine that does nothing else
        _, said = process.communicate(timeout=10)
        assert "Traceback" not in said
        if process.returncode == 0:
            # it had ended when the signal came: it wrote and said all that a whole run does
            assert (tmp_path / written).exists()
            remove(tmp_path)
            _, whole = run(words, inputs, environment).communicate()
            assert _without_numbers(said) == _without_numbers(whole)
            break
        assert process.returncode == 130, said
        assert said.splitlines()[-1] == "mr-dedup: error: interrupted"
        assert list(temporary.iterdir()) == []
        interrupted += 1
        remove(tmp_path)
    assert interrupted or process.returncode == 0


def run(words, inputs, environment):
    return subprocess.Popen(
        words, cwd=inputs, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def _without_numbers(said):
    return re.sub(r"[0-9][0-9.,]*", "0", said)


def remove(folder):
    import shutil

    for path in folder.iterdir():
        if path.name == "tmp":
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
