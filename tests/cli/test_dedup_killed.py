"""Runs of mr-dedup dedup that are killed at random moments, and go on: the same bytes come out."""

import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter

import pytest

from mr_dedup.engines.streaming import RUNNERS
from tests.cli.documents import files_of, made_up_documents, write_jsonl
from tests.cli.running import Command

pytestmark = pytest.mark.slow

MOMENTS = 30
"""At which there is a run to kill: those after its end do not count."""

MEASURED_EVERY = 10
"""Moments after which the duration of a run is measured anew: other work may come and go."""


def command(folder, runner, against, out):
    arguments = ["dedup", folder / "new.jsonl", "-o", out, "-r", runner]
    arguments += ["--against", folder / "kept"] if against else []
    return Command().program(*arguments)


def run(words, staging, said):
    environment = {**os.environ, "TMPDIR": str(staging)}
    return subprocess.Popen(words, stderr=said, env=environment, start_new_session=True)


def finished(words, staging):
    process = run(words, staging, subprocess.PIPE)
    _, said = process.communicate()
    assert process.returncode == 0, said.decode()


def begun(process, folder):
    """Wait until a run has left something, or has ended; return how long that took."""
    started = time.perf_counter()
    while not (folder / ".out.unfinished").exists() and process.poll() is None:
        time.sleep(0.001)
    return time.perf_counter() - started


def durations(words, staging, folder):
    """Return how long an undisturbed run takes before it leaves anything, and from then on."""
    process = run([*words, "--overwrite"], staging, subprocess.PIPE)
    before = begun(process, folder)
    started = time.perf_counter()
    _, said = process.communicate()
    assert process.returncode == 0, said.decode()
    return before, time.perf_counter() - started


def kill(process, whole_group):
    """Kill a run, if it is still there, with the tasks it has started or without.

    Those that are left go on beside the next run.
    """
    if process.poll() is None:
        if whole_group:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def state(folder):
    """What there is of a run in ``folder``."""
    unfinished = folder / ".out.unfinished"
    if not unfinished.exists():
        return "complete"
    try:
        done = json.loads((unfinished / "manifest.json").read_bytes())["done"]
    except FileNotFoundError:
        return "no manifest"
    return f"after {list(done)[-1]}" if done else "begun"


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """A file of some thousand new documents, and the result of an earlier run."""
    folder = tmp_path_factory.mktemp("corpora")
    documents = [
        {**document, "id": f"{seed}-{document['id']}"}
        for seed in range(150)
        for document in made_up_documents(seed)
    ]
    random.Random(1).shuffle(documents)
    write_jsonl(folder / "new.jsonl", documents[::2])
    path = write_jsonl(folder / "old.jsonl", documents[1::2])
    words = Command("dedup").program(path, "-o", folder / "kept")
    subprocess.run(words, check=True, capture_output=True)
    return folder


def killed_and_gone_on(words, staging, folder, rng, times, number):
    """Kill a run, every third one again as it goes on, then let it end.

    Returns the moments, in seconds from where it left something, or, of a run that goes on, from
    its start; and what there was of it.
    """
    before, rest = times
    process = run(words, staging, subprocess.DEVNULL)
    begun(process, folder)
    moments = [rng.uniform(0, rest)]
    time.sleep(moments[0])
    kill(process, whole_group=number % 2 == 0)
    kills = [(moments[0], state(folder))]
    if number % 3 == 2 and state(folder) != "complete":
        moments.append(rng.uniform(0, before + rest))
        process = run([*words, "--resume"], staging, subprocess.DEVNULL)
        time.sleep(moments[1])
        kill(process, whole_group=number % 2 == 0)
        kills.append((moments[1], state(folder)))
    if any((folder / f".out.{name}").exists() for name in ("unfinished", "ended")):
        finished([*words, "--resume"], staging)
    elif (folder / ".out.lock").exists():
        # it was killed when all else was done; the next run takes the lock over and removes it
        process = run([*words, "--resume"], staging, subprocess.PIPE)
        said = process.communicate()[1].decode()
        assert (process.returncode, said.count("\n")) == (2, 1), said
        assert said.endswith("out: exists; give --overwrite to replace it\n")
    return kills


@pytest.mark.parametrize("against", [False, True], ids=["alone", "against"])
@pytest.mark.parametrize("runner", RUNNERS)
def test_runs_killed_at_random_moments_go_on(corpora, tmp_path, runner, against):
    # as deep as the others: a result says where those are that it was made against
    undisturbed = corpora / f"undisturbed-{runner}-{against}"
    undisturbed.mkdir()
    words = command(corpora, runner, against, undisturbed / "out")
    finished(words, tmp_path)
    expected = files_of(undisturbed / "out")
    rng = random.Random(f"{runner} {against}")
    states = Counter()
    number = 0
    while states.total() - states["complete"] < MOMENTS:
        if number % MEASURED_EVERY == 0:
            times = durations(words, tmp_path, undisturbed)
            said = "against" if against else "alone"
            print(
                f"\n{runner}, {said}: {times[0]:.2f} s to begin, {times[1]:.2f} s then", flush=True
            )
        folder = corpora / f"{runner}-{against}-{number}"
        folder.mkdir()
        these = command(corpora, runner, against, folder / "out")
        kills = killed_and_gone_on(these, tmp_path, folder, rng, times, number)
        states.update(found for _, found in kills)
        moments = ", again at ".join(f"{moment:.3f} s ({found})" for moment, found in kills)
        print(f"  killed at {moments}", flush=True)
        assert files_of(folder / "out") == expected
        assert [path.name for path in folder.iterdir()] == ["out"]
        shutil.rmtree(folder)
        number += 1
    print(f"  found: {dict(states)}", flush=True)
