"""``python -m bench.decontamination``: what decontaminate finds, misses, and costs.

With ``--fixtures DIR`` it judges documents of ``DIR/training`` by the items of each file of
``DIR/reference``, and prints what each has; whether a document has an item is what its file is
called, but for those listed here. With ``--items FILE`` it plants the questions of FILE in made-up
pages, one in ten, as they are or with an edit, each with its answer, and prints how many of each
kind are found, how many of the other pages are found too, and the seconds of the command.
``--decon PROGRAM`` is AllenAI's decon, which gets the same. With ``--unseen FILE`` too, items of
another part of the same set, it plants each of these, with its passage, in a page of its own, and
some questions of ``--items`` in all ways, with their answers and without, and prints how many of
them are found: of the former none should be.
"""

from __future__ import annotations

import argparse
import collections
import gzip
import json
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import mr_dedup
from bench.machine import describe
from bench.processes import Usage, measure
from data_gen.documents import Collection, DocumentParameters
from data_gen.markup import to_text

_SHARE = 10
"""One page in so many has an item."""

_OF_LINES = {"contaminated_mixed.jsonl": {0, 3}}
"""The lines that have an item, where it is not all of a file that is called contaminated."""

_OF_REFERENCE = {
    ("contaminated_edge_cases.jsonl", "question_reference.jsonl"): {3},
    ("contaminated_edge_cases.jsonl", "question_answer_reference.jsonl"): {3},
}
"""The same for items without passages: the other lines have the passage, not the question."""

_ALSO = {"long_document.jsonl"}
"""Files with items that are called otherwise."""


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fixtures", type=Path, help="a directory with training/ and reference/")
    parser.add_argument("--items", type=Path, nargs="+", help="a .jsonl or .jsonl.gz of items")
    parser.add_argument("--unseen", type=Path, nargs="+", help="the same of other items")
    parser.add_argument("--pages", type=int, default=100_000, help="made-up pages")
    parser.add_argument("--decon", type=Path, help="AllenAI's program")
    parser.add_argument("--work", type=Path, help="where files go (default: a temporary directory)")
    arguments = parser.parse_args()
    print(describe())
    if arguments.fixtures:
        judge_fixtures(arguments.fixtures)
    if arguments.unseen:
        find_unseen(_records(arguments.items), _records(arguments.unseen))
    elif arguments.items:
        with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
            plant_and_find(arguments.items[0], arguments.pages, Path(folder), arguments.decon)


# labelled documents


def judge_fixtures(folder: Path) -> None:
    """Print what each document has of each file of items, and whether that is right."""
    wrong = 0
    for reference in sorted((folder / "reference").iterdir()):
        print(f"\n{reference.name}")
        for path in sorted((folder / "training").iterdir()):
            # some are called contaminated that have a passage alone
            with mr_dedup.decontaminate(path, reference, passages="alone") as found:
                rows = found.matches.to_pylist()
            documents = list(_documents(path))
            for line, (offset, _) in enumerate(documents):
                of_line = [row for row in rows if row["position"] == offset]
                is_found = any(row["contaminated"] for row in of_line)
                is_right = is_found == _is_contaminated(path.name, reference.name, line)
                wrong += not is_right
                print(
                    f"{'right' if is_right else 'WRONG'}  {path.name} {line}: "
                    f"{'contaminated' if is_found else 'clean'}  {_reasons(of_line)}"
                )
    print(f"\nwrong: {wrong}")


def _is_contaminated(training: str, reference: str, line: int) -> bool:
    lines = _OF_REFERENCE.get((training, reference), _OF_LINES.get(training))
    if lines is not None:
        return line in lines
    return training.startswith("contaminated") or training in _ALSO


def _reasons(rows: list[dict[str, Any]]) -> str:
    return "; ".join(
        f"{row['verdict']} of {row['item']}: {row['field']} {row['kind']} {row['coverage']:.2f}, "
        f"edits {row['deleted'] + row['inserted'] + row['changed']}"
        for row in rows
    )


def _documents(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the offset and the record of each line."""
    offset = 0
    for line in path.read_bytes().splitlines(keepends=True):
        yield offset, json.loads(line)
        offset += len(line)


# planted items

Words = list[str]


def _at(place: float, edit: Callable[[Words, random.Random], Words]) -> Callable[..., Words]:
    """Return what puts an item, edited, into a page, after a share of its words; -1: anywhere."""

    def planted(page: Words, item: Words, answer: Words, draw: random.Random) -> Words:
        at = int((draw.random() if place < 0 else place) * len(page))
        return [*page[:at], *edit(item, draw), *answer, *page[at:]]

    return planted


def _as_it_is(item: Words, _: random.Random) -> Words:
    return item


def _deleted(item: Words, draw: random.Random) -> Words:
    at = draw.randrange(len(item))
    return item[:at] + item[at + 1 :]


def _inserted(item: Words, draw: random.Random) -> Words:
    at = draw.randrange(1, len(item))
    return [*item[:at], "actually", *item[at:]]


def _changed(item: Words, draw: random.Random) -> Words:
    at = draw.randrange(len(item))
    return [*item[:at], "something", *item[at + 1 :]]


def _three_changed(item: Words, draw: random.Random) -> Words:
    for at in draw.sample(range(len(item)), 3):
        item = [*item[:at], "something", *item[at + 1 :]]
    return item


def _punctuated(item: Words, draw: random.Random) -> Words:
    marks = (",", " --", "!", "...", "**")
    return [word.strip(",.?!").upper() + draw.choice(marks) for word in item]


def _divided(item: Words, draw: random.Random) -> Words:
    """Divide a word at the end of a line."""
    long = [at for at, word in enumerate(item) if len(word) >= 6 and word.isalpha()]
    if not long:
        return item
    at = draw.choice(long)
    return [*item[:at], f"{item[at][:3]}-\n{item[at][3:]}", *item[at + 1 :]]


def _split(item: Words, draw: random.Random) -> Words:
    """Put an advertisement into an item."""
    at = draw.randrange(len(item) // 5, len(item) - len(item) // 5)
    return [*item[:at], *draw.choices(_ADVERT, k=18), *item[at:]]


_ADVERT = ["Advertisement", "our", "new", "garden", "lamps", "save", "power", "all", "summer"]


def _first_nine_tenths(item: Words, _: random.Random) -> Words:
    return item[: len(item) * 9 // 10]


def _last_nine_tenths(item: Words, _: random.Random) -> Words:
    return item[len(item) // 10 :]


KINDS: Mapping[str, Callable[[Words, Words, Words, random.Random], Words]] = {
    "whole, anywhere": _at(-1, _as_it_is),
    "at the beginning": _at(0, _as_it_is),
    "in the middle": _at(0.5, _as_it_is),
    "at the end": _at(1, _as_it_is),
    "other punctuation and case": _at(-1, _punctuated),
    "a word deleted": _at(-1, _deleted),
    "a word inserted": _at(-1, _inserted),
    "a word changed": _at(-1, _changed),
    "three words changed": _at(-1, _three_changed),
    "a word divided at the end of a line": _at(-1, _divided),
    "18 words in it": _at(-1, _split),
    "the first nine tenths": _at(-1, _first_nine_tenths),
    "the last nine tenths": _at(-1, _last_nine_tenths),
}


def plant_and_find(items: Path, pages: int, folder: Path, decon: Path | None) -> None:
    """Plant items in pages, and print what is found of each kind."""
    opened = gzip.open if items.suffix == ".gz" else open
    with opened(items, "rb") as file:
        records = [json.loads(line) for line in file]
    documents, evals = folder / "documents", folder / "evals"
    documents.mkdir()
    evals.mkdir()
    shutil.copy(items, evals)
    planted = _write_pages(documents / "pages.jsonl", records, pages)
    size = (documents / "pages.jsonl").stat().st_size
    print(f"\n{pages:,} made-up pages, {size / 1e6:,.0f} MB; {len(records):,} items")
    out = folder / "out"
    usage = measure(
        [
            sys.executable,
            "-m",
            "mr_dedup",
            "decontaminate",
            str(documents),
            "--evals",
            str(evals),
            "-o",
            str(out),
        ]
    )
    found: dict[int, set[str]] = collections.defaultdict(set)
    table = pq.read_table(out / "matches", columns=["id", "item", "contaminated"])
    for row in table.to_pylist():
        if row["contaminated"]:
            found[int(row["id"])].add(row["item"])
    _print_found("mr-dedup decontaminate", planted, found, pages)
    _print_cost(usage, pages, size)
    if decon is not None:
        _run_decon(decon, documents, evals, folder, planted, pages, size)


def _write_pages(
    path: Path, records: list[dict[str, Any]], pages: int
) -> dict[int, tuple[str, str]]:
    """Write pages; return the kind and the item of each that has one."""
    draw = random.Random(1)
    planted = {}
    kinds = list(KINDS)
    made = Collection(DocumentParameters(documents=pages, duplicates_per_document=0, seed=1))
    with path.open("w") as file:
        for number, page in enumerate(made.documents()):
            text = to_text(page.page)
            if number % _SHARE == 0:
                which = number // _SHARE
                kind, record = kinds[which % len(kinds)], records[which % len(records)]
                planted[number] = kind, str(record["doc_id"])
                question, answer = (record[name].split() for name in ("question", "answer"))
                words = KINDS[kind](text.split(" "), question, answer, draw)
                text = " ".join(words)
            file.write(json.dumps({"id": str(number), "text": text}) + "\n")
    return planted


# items of another part of the same set

Texts = tuple[str, str, str]
"""A passage, which may be empty, a question and its answer."""

_LENGTHS = {"5 to 7": (5, 8), "8 to 15": (8, 16), "16 or more": (16, 1 << 30)}
_PLANTED = 900


def _records(paths: list[Path]) -> list[Texts]:
    """Return the items of files; of wrong answers to choose from none."""
    texts = {}
    for path in paths:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rb") as file:
            for line in file:
                record = json.loads(line)
                if record.get("is_correct") is not False:
                    passage, question = record.get("passage") or "", record["question"]
                    texts[passage, question] = str(record.get("answer") or "")
    return [(*text, answer) for text, answer in texts.items()]


def find_unseen(items: list[Texts], unseen: list[Texts]) -> None:
    """Plant items of another set, and edited ones of this, and print how many are found."""
    draw = random.Random(1)
    known = {
        _tokens(passage, question): number for number, (passage, question, _) in enumerate(items)
    }
    others = [each for each in unseen if _tokens(*each[:2]) not in known]
    planted = draw.sample(items, min(_PLANTED, len(items)))
    pages: dict[str, str] = {}
    of_page: dict[str, tuple[str, str]] = {}
    made = Collection(
        DocumentParameters(
            documents=2 * len(others) + 2 * len(planted) * len(KINDS),
            duplicates_per_document=0, seed=1,
        )
    )  # fmt: skip
    texts = (to_text(page.page).split(" ") for page in made.documents())
    kinds = {"unseen": _at(-1, _as_it_is), **KINDS}
    for has_answer in (True, False):
        for kind, plant in kinds.items():
            for passage, question, answer in others if kind == "unseen" else planted:
                words = question.split()
                length = len(_tokens(question))
                column = [name for name, (low, high) in _LENGTHS.items() if low <= length < high]
                if not column or (kind != "unseen" and len(words) < 4):
                    continue
                item = [*passage.split(), *words] if kind == "unseen" else words
                if kind == "unseen" or not passage:
                    page = plant(next(texts), item, answer.split() * has_answer, draw)
                else:
                    # the passage as it is, before the question
                    page = next(texts)
                    page = [*page[:50], *passage.split(), *plant([], words, [], draw),
                            *(answer.split() * has_answer), *page[50:]]  # fmt: skip
                name = str(len(pages))
                pages[name] = " ".join(page)
                of_page[name] = kind, f"{column[0]}, {'with' if has_answer else 'without'} answer"
    table = pa.table({"id": list(pages), "text": list(pages.values())})
    columns = ("passage", "question", "answer")
    evals = [dict(zip(columns, each, strict=True)) for each in items]
    with mr_dedup.decontaminate(table, evals) as found:
        rows = found.matches
    contaminated = set(rows.filter(pc.field("contaminated"))["id"].to_pylist())
    counts: dict[tuple[str, str], list[int]] = collections.defaultdict(lambda: [0, 0])
    for name, key in of_page.items():
        counts[key][0] += 1
        counts[key][1] += name in contaminated
    names = list(dict.fromkeys(column for _, column in of_page.values()))
    print(f"\n{len(items):,} items, {len(others):,} unseen\n| kind | {' | '.join(names)} |")
    print("|---" * (1 + len(names)) + "|")
    for kind in kinds:
        cells = [counts[kind, name] for name in names]
        print(f"| {kind} | {' | '.join(f'{right:,} of {total:,}' for total, right in cells)} |")


def _tokens(*texts: str) -> tuple[str, ...]:
    return tuple("".join(each if each.isalnum() else " " for each in " ".join(texts)).split())


def _print_found(
    name: str, planted: dict[int, tuple[str, str]], found: dict[int, set[str]], pages: int
) -> None:
    counts: dict[str, list[int]] = {kind: [0, 0] for kind in KINDS}
    for number, (kind, item) in planted.items():
        counts[kind][0] += 1
        counts[kind][1] += item in found.get(number, ())
    print(f"\n{name}\n| kind | planted | found | recall |\n|---|---|---|---|")
    for kind, (total, right) in counts.items():
        print(f"| {kind} | {total:,} | {right:,} | {right / max(total, 1):.4f} |")
    alarms = sum(number not in planted for number in found)
    print(f"false alarms: {alarms:,} of {pages - len(planted):,} pages without an item")


def _print_cost(usage: Usage, pages: int, size: int) -> None:
    print(
        f"{usage.seconds:.1f} s, CPU {usage.cpu_seconds:.1f} s, {pages / usage.seconds:,.0f} "
        f"pages and {size / usage.seconds / 1e6:.1f} MB a second, "
        f"peak {usage.peak_bytes / 1e6:,.0f} MB"
    )


def _run_decon(
    program: Path,
    documents: Path,
    evals: Path,
    folder: Path,
    planted: dict[int, tuple[str, str]],
    pages: int,
    size: int,
) -> None:
    """Have AllenAI's decon search the same, by its defaults, and at every position."""
    for step in ("6", "1"):
        reports = folder / f"decon-{step}"
        usage = measure(
            [
                str(program), "detect", "--training-dir", str(documents), "--evals-dir",
                str(evals), "--report-output-dir", str(reports), "--sample-every-m-tokens", step,
            ]
        )  # fmt: skip
        found: dict[int, set[str]] = collections.defaultdict(set)
        for path in reports.rglob("*.jsonl*"):
            opened = gzip.open if path.suffix == ".gz" else open
            with opened(path, "rb") as file:
                for line in file:
                    row = json.loads(line)
                    number = row.get("eval_instance_index")
                    found[row["training_line"]].add(str(number))
        by_index = _by_index(evals)
        named = {line: {by_index.get(each, each) for each in of} for line, of in found.items()}
        _print_found(f"decon, a position in {step}", planted, named, pages)
        _print_cost(usage, pages, size)


def _by_index(evals: Path) -> dict[str, str]:
    """Return the ids of items by their index."""
    names = {}
    for path in evals.iterdir():
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rb") as file:
            for line in file:
                record = json.loads(line)
                names[str(record["eval_instance_index"])] = str(record["doc_id"])
    return names


if __name__ == "__main__":
    main()
