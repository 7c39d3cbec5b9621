"""Run every command of mr-dedup and data-gen once, as a user does, on small inputs.

For Pythons other than the one that all tests run on: needs the commands in the same environment,
and no test runner. ``make smoke`` installs them and runs it.
"""

from __future__ import annotations

import csv
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

import mr_dedup as package
from data_gen.cli.command import COMMANDS as GENERATORS
from mr_dedup.cli.main import COMMANDS

LICENSE = Path(__file__).parents[1] / "LICENSE"
BIN = Path(sys.executable).parent

_ran: set[tuple[str, str]] = set()


def run(program: str, command: str, *arguments: object, stdin: str = "") -> str:
    """Run a command, which must succeed; return what it prints."""
    _ran.add((program, command))
    begun = time.perf_counter()
    done = subprocess.run(
        [BIN / program, command, *map(str, arguments)],
        input=stdin, capture_output=True, text=True, check=False,
    )  # fmt: skip
    print(f"{time.perf_counter() - begun:6.1f} s  {program} {command}", flush=True)
    assert done.returncode == 0, f"{program} {command}: exit code {done.returncode}\n{done.stderr}"
    return done.stdout


def data_gen(command: str, *arguments: object) -> None:
    run("data-gen", command, *arguments)


def mr_dedup(command: str, *arguments: object, stdin: str = "") -> str:
    return run("mr-dedup", command, *arguments, stdin=stdin)


def longs(path: Path) -> list[int]:
    data = path.read_bytes()
    return [
        int.from_bytes(data[start : start + 8], "big", signed=True)
        for start in range(0, len(data), 8)
    ]


def distance(one: int, other: int) -> int:
    return bin((one ^ other) & (1 << 64) - 1).count("1")


def fingerprints(folder: Path) -> None:
    """Fingerprints: generated, searched, joined, converted, indexed."""
    data = folder / "data"
    data_gen("fingerprints", "--queries", 50, "--corpus", 1000, "--duplicates-per-query", 2,
             "-k", 3, "--near-misses", 2, "--seed", 1, "--out", data)  # fmt: skip
    corpus, queries = data / "corpus-00000.longs", data / "queries.longs"
    packed = folder / "corpus.fpz"
    mr_dedup("convert", corpus, "-o", packed)
    [described] = json.loads(mr_dedup("inspect", "--json", packed))
    values = sorted(set(longs(corpus)))
    assert (described["format"], described["count"]) == ("packed", len(values)), described
    assert "chosen: " in mr_dedup("plan", "--corpus", 1000, "--queries", 50)
    assert mr_dedup("query", packed, "--queries", queries) == (data / "truth.tsv").read_text()
    found = [tuple(map(int, line.split("\t"))) for line in mr_dedup("pairs", packed).splitlines()]
    expected = [
        (one, other)
        for row, one in enumerate(values)
        for other in values[row + 1 :]
        if distance(one, other) <= 3
    ]
    assert found == expected, (len(found), len(expected))


def documents(folder: Path) -> None:
    """The licence's long paragraphs, and each once more with another word in its middle."""
    texts = [
        " ".join(paragraph.split())
        for paragraph in re.split(r"\n\s*\n", LICENSE.read_text(encoding="utf-8"))
        if len(paragraph.split()) > 40
    ]
    assert len(texts) > 12
    originals = [f"paragraph {number}" for number in range(len(texts))]
    copies = [f"{name}, changed" for name in originals]
    changed = []
    for text in texts:
        words = text.split()
        words[len(words) // 2] = "otherwise"
        changed.append(" ".join(words))
    path, truth = folder / "licence.jsonl", folder / "planted.tsv"
    path.write_text(
        "".join(
            json.dumps({"id": id, "text": text}) + "\n"
            for id, text in zip([*originals, *copies], [*texts, *changed], strict=True)
        )
    )
    planted = list(zip(originals, copies, strict=True))
    truth.write_text("id_a\tid_b\tjaccard\n" + "".join(f"{a}\t{b}\t0.9\n" for a, b in planted))

    mr_dedup("idf", path, "-o", folder / "idf.parquet")
    mr_dedup("fingerprint", path, "-o", folder / "licence.parquet", "--weights", "log-tf-idf",
             "--idf", folder / "idf.parquet")  # fmt: skip
    assert pq.read_table(folder / "licence.parquet")["id"].to_pylist() == [*originals, *copies]

    kept = folder / "kept"
    mr_dedup("dedup", path, "-o", kept)
    assert mr_dedup("why", kept, originals[0]).startswith(f"{originals[0]}: kept, ")
    lines = "".join(each.read_text() for each in (kept / "documents").rglob("*.jsonl"))
    assert [json.loads(line)["id"] for line in lines.splitlines()] == originals

    mr_dedup("counts", kept, "-o", folder / "counts.parquet")
    counted = pq.read_table(folder / "counts.parquet")
    assert counted["duplicates_total"].to_pylist() == [1] * len(originals)

    item = json.dumps({"question": texts[0], "answer": "none"}) + "\n"
    (folder / "exam.jsonl").write_text(item)
    mr_dedup("decontaminate", path, "--evals", folder / "exam.jsonl", "-o", folder / "items")
    matches = pq.read_table(folder / "items" / "matches", columns=["id", "kind"]).to_pylist()
    assert {"id": originals[0], "kind": "exact"} in matches, matches

    mr_dedup("passages", path, "-o", folder / "passages", "--cut", "all")
    mr_dedup("restore", folder / "passages", "-o", folder / "restored")
    assert (folder / "restored" / path.name).read_bytes() == path.read_bytes()

    found = mr_dedup("pairs", path, "--method", "minhash")
    assert sorted(tuple(line.split("\t")[:2]) for line in found.splitlines()) == sorted(planted)
    (folder / "found.tsv").write_text(found)
    mr_dedup("evaluate", folder / "found.tsv", "--truth", truth)
    mr_dedup("compare", path, "--truth", truth, "-o", folder / "compared", "--method", "exact",
             "--method", "minhash")  # fmt: skip
    with (folder / "compared" / "results.csv").open(newline="") as file:
        methods = {row["method"].partition(":")[0] for row in csv.DictReader(file)}
    assert methods == {"exact", "minhash"}, methods
    explained = json.loads(mr_dedup("distance", "--json", *planted[0], "--in", path))
    assert explained, "nothing is printed"

    index = folder / "index"
    mr_dedup("index", "create", index, path)
    query = json.dumps({"id": "query", "text": texts[0]}) + "\n"
    assert originals[0] in mr_dedup("index", "query", index, stdin=query).strip().split("\t")
    served(index, len(texts) * 2)

    data_gen("documents", "--documents", 5, "--duplicates-per-document", 1, "--seed", 1,
             "--out", folder / "pages")  # fmt: skip
    assert len((folder / "pages" / "documents-00000.jsonl").read_text().splitlines()) == 10


def served(index: Path, documents: int) -> None:
    """Serve an index; ask it, and stop it as a supervisor does."""
    _ran.add(("mr-dedup", "serve"))
    with subprocess.Popen(
        [BIN / "mr-dedup", "serve", index, "--port", "0"], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr
            line = process.stderr.readline()
            assert " at http://" in line, line + process.stderr.read()
            url = line.strip().rpartition(" at ")[2]
            with urllib.request.urlopen(f"{url}/v1/stats", timeout=60) as response:
                described = json.load(response)
            assert described["documents"] == documents, described
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
    assert process.returncode == 0, process.returncode


def urls(folder: Path) -> None:
    data = folder / "urls"
    data_gen("urls", "--pages", 100, "--visits", 300, "--seed", 1, "--out", data)
    visits = (data / "visits-00000.txt").read_text()
    printed = mr_dedup("urls", "filter", "--store", folder / "seen", stdin=visits).splitlines()
    assert printed
    assert len(printed) == len(set(printed))
    assert set(printed) <= set(visits.splitlines())
    assert mr_dedup("urls", "filter", "--store", folder / "seen", stdin=visits) == ""


def commands() -> Iterator[str]:
    for program, names in (("mr-dedup", COMMANDS), ("data-gen", GENERATORS)):
        yield from (f"{program} {name}" for name in names)


def never_run() -> list[str]:
    return [name for name in commands() if tuple(name.split(" ")) not in _ran]


def main() -> None:
    print(f"Python {sys.version.split()[0]}, {BIN}", flush=True)
    assert BIN.parent in Path(package.__file__).parents, f"not of the wheel: {package.__file__}"
    assert "libraries" in mr_dedup("warm-up")
    pages = BIN.parent / "share" / "man" / "man1"
    missing = [name for name in commands() if not (pages / f"{name.replace(' ', '-')}.1").is_file()]
    assert not missing, f"no manual pages: {missing}"
    for program in ("mr-dedup", "data-gen"):
        assert f" {program}" in run(program, "completion", "bash")
    with tempfile.TemporaryDirectory(prefix="mr_dedup-smoke-") as name:
        for group in (fingerprints, documents, urls):
            group(Path(name))
    assert not never_run(), f"not run: {', '.join(never_run())}"
    print(f"every command ran: {len(_ran)}")


if __name__ == "__main__":
    main()
