"""Data sets of documents, read by other means and compared with their truth."""

import dataclasses
import hashlib
import itertools
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from data_gen.document_files import FORMATS
from data_gen.documents import KINDS, Collection, DocumentParameters, pair_lines, write
from tests.data_gen.document_oracles import (
    SHINGLE,
    file_lines,
    read_documents,
    read_pairs,
    slow_jaccard,
    slow_shingles,
    slow_tokens,
)

BASE = DocumentParameters(
    documents=20,
    duplicates_per_document=len(KINDS),
    seed=11,
    near_misses=2,
    language="mixed",
    length=80,
    html_share=0.5,
)


def made(folder: Path, **changes: Any) -> Path:
    write(dataclasses.replace(BASE, **changes), folder)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("language", ["english", "chinese", "mixed"])
@pytest.mark.parametrize("format_", ["jsonl", "html"])
def test_the_truth_is_every_pair_of_a_cluster_with_its_similarity(
    tmp_path: Path, language: str, format_: str
) -> None:
    html_share = 0.0 if format_ == "html" else 0.5
    folder = made(
        tmp_path / "out", language=language, format=format_, html_share=html_share, documents=10
    )
    documents = read_documents(folder)
    clusters: defaultdict[int, list[str]] = defaultdict(list)
    shingles = {}
    for document in documents:
        size = SHINGLE[document["language"]]
        shingles[document["id"]] = slow_shingles(slow_tokens(document["shown"]), size)
        clusters[document["cluster"]].append(document["id"])
    truth = {}
    for ids in clusters.values():
        for one, other in itertools.combinations(sorted(ids), 2):
            truth[one, other] = slow_jaccard(shingles[one], shingles[other])
    rows = read_pairs(folder / "truth.tsv")
    assert len(rows) == len(truth) == 10 * 45
    assert {(one, other): jaccard for one, other, jaccard in rows} == truth

    # and the near misses, each beside an original of its site; no other pair is similar
    kinds = {document["id"]: document["kind"] for document in documents}
    sites = {document["id"]: document["site"] for document in documents}
    missed = read_pairs(folder / "near-misses.tsv")
    assert len(missed) == 20
    for one, other, jaccard in missed:
        assert {kinds[one], kinds[other]} == {"original", "near-miss"}
        assert sites[one] == sites[other]
        assert jaccard == slow_jaccard(shingles[one], shingles[other])
        assert 0 < jaccard < 0.35
    for one, other in itertools.combinations(sorted(shingles), 2):
        if (one, other) not in truth:
            assert slow_jaccard(shingles[one], shingles[other]) < 0.4


def test_documents_have_their_fields_and_clusters(tmp_path: Path) -> None:
    documents = read_documents(made(tmp_path / "out"))
    assert [document["id"] for document in documents] == [f"{n:08}" for n in range(240)]
    assert len({document["url"] for document in documents}) == 240
    clusters: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    for document in documents:
        content = {"html", "text"} & set(document)
        assert len(content) == 1
        assert set(document) - content - {"shown"} == {
            "id", "url", "site", "date", "language", "cluster", "kind"
        }  # fmt: skip
        assert document["url"].startswith(f"https://{document['site']}/")
        assert document["date"][:7].replace("-", "/") in document["url"]
        assert document["date"][:4] in document["shown"] or document["kind"] == "re-encoded"
        clusters[document["cluster"]].append(document)
    assert sorted(clusters) == list(range(20 + 40))
    for number, members in clusters.items():
        assert len({("html" in member, member["language"]) for member in members}) == 1
        if number < 20:
            kinds = Counter(member["kind"] for member in members)
            assert kinds == Counter(["original", *KINDS])
        else:
            assert [member["kind"] for member in members] == ["near-miss"]


def test_kinds_are_used_in_turn(tmp_path: Path) -> None:
    kinds = ("date", "spun", "date")
    folder = made(tmp_path / "out", duplicates_per_document=4, kinds=kinds, near_misses=0)
    counts = Counter(document["kind"] for document in read_documents(folder))
    # 80 of them: date, spun, date, date, spun, …
    assert counts == {"original": 20, "date": 53, "spun": 27}


def test_documents_are_scattered_over_the_files(tmp_path: Path) -> None:
    folder = made(tmp_path / "out", documents=300, duplicates_per_document=2, near_misses=0)
    clusters = [document["cluster"] for document in read_documents(folder)]
    neighbours = sum(one == other for one, other in itertools.pairwise(clusters))
    assert neighbours < 12
    positions: defaultdict[int, list[int]] = defaultdict(list)
    for position, cluster in enumerate(clusters):
        positions[cluster].append(position)
    # the range of three uniform positions is half of the total, on average
    spread = sum(max(each) - min(each) for each in positions.values()) / 300
    assert 0.44 < spread / 900 < 0.56
    originals = sum(position for each in positions.values() for position in each) / 900
    assert abs(originals - 449.5) < 1


@pytest.mark.parametrize(
    "changes",
    [{}, {"near_misses": 0}, {"duplicates_per_document": 0}, {"documents": 700}, {"documents": 0}],
)
def test_documents_by_cluster_are_those_by_position(changes: dict[str, int]) -> None:
    parameters = dataclasses.replace(BASE, **changes)
    collection = Collection(parameters)
    whole = {document.id: document for document in collection.documents()}
    assert len(whole) == parameters.total
    clusters = list(collection.clusters())
    assert [members[0].cluster for members in clusters] == list(range(parameters.documents))
    apart = list(itertools.chain.from_iterable(clusters))
    assert {document.id: document for document in apart} == whole


@pytest.mark.parametrize("format_", FORMATS)
def test_any_chunk_size_gives_the_same_lines(tmp_path: Path, format_: str) -> None:
    one = made(tmp_path / "one", format=format_, documents=8)
    lines = file_lines(one)
    assert len(lines) == 96
    assert len(list(one.glob("documents-*"))) == 1
    others = {name: data for name, data in contents(one).items() if "documents-" not in name}
    assert len(others) == 2 + 96 * (format_ == "html")
    longest = max(map(len, lines))
    for chunk_bytes in (1, longest, 20_000):
        many = made(
            tmp_path / str(chunk_bytes), format=format_, documents=8, chunk_bytes=chunk_bytes
        )
        assert file_lines(many) == lines
        paths = sorted(many.glob("documents-*"))
        suffix = "jsonl" if format_ == "html" else format_
        assert [path.name for path in paths] == [
            f"documents-{number:05}.{suffix}" for number in range(len(paths))
        ]
        if suffix == "jsonl":
            # each as full as its lines allow
            sizes = [path.stat().st_size for path in paths]
            firsts = [len(path.read_bytes().splitlines(keepends=True)[0]) for path in paths]
            assert all(size <= max(chunk_bytes, longest) for size in sizes)
            joined = [size + first for size, first in zip(sizes, firsts[1:], strict=False)]
            assert all(size > chunk_bytes for size in joined)
        assert {name: data for name, data in contents(many).items() if name in others} == others
    assert len(list((tmp_path / "1").glob("documents-*"))) == 96


@pytest.mark.parametrize("format_", ["jsonl.gz", "jsonl.zst"])
def test_a_compressed_file_has_the_lines_of_a_plain_one(tmp_path: Path, format_: str) -> None:
    plain, packed = made(tmp_path / "plain"), made(tmp_path / "packed", format=format_)
    assert file_lines(packed) == file_lines(plain)
    size = (packed / f"documents-00000.{format_}").stat().st_size
    assert size < 0.7 * (plain / "documents-00000.jsonl").stat().st_size
    assert contents(made(tmp_path / "again", format=format_)) == contents(packed)


def test_effects_of_seeds_and_parameters(tmp_path: Path) -> None:
    one = contents(made(tmp_path / "one"))
    assert contents(made(tmp_path / "same")) == one
    for name, changes in {
        "seed": {"seed": 12},
        "length": {"length": 90},
        "kinds": {"kinds": ("advert",)},
        "html": {"html_share": 0.4},
        "language": {"language": "english"},
    }.items():
        other = contents(made(tmp_path / name, **changes))
        assert other["documents-00000.jsonl"] != one["documents-00000.jsonl"]
    texts = {}
    for near_misses in (0, 2):
        collection = Collection(dataclasses.replace(BASE, near_misses=near_misses))
        pages = [document.page for document in collection.documents() if document.cluster < 20]
        texts[near_misses] = sorted(map(repr, pages))
    assert texts[0] == texts[2]


DIGESTS = {
    "english": "1b2b52d95b22f0500e278b36399e7c3dfb1e877316785747bf6c792167920d3d",
    "chinese": "df139c5a6ec405dd5756fc404fb60e732d38a172097be3c24919e2a7e8903bd4",
}


@pytest.mark.parametrize("language", DIGESTS)
def test_golden_values_of_a_seed(tmp_path: Path, language: str) -> None:
    folder = made(tmp_path / "out", language=language, seed=2**64 - 59, documents=100, length=300)
    digest = hashlib.sha256()
    for name in ("documents-00000.jsonl", "truth.tsv", "near-misses.tsv"):
        digest.update((folder / name).read_bytes())
    assert digest.hexdigest() == DIGESTS[language]


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize(
    ("documents", "duplicates", "near_misses"),
    [(0, 0, 0), (0, 3, 2), (1, 0, 0), (3, 0, 2), (1, 30, 0)],
)
def test_counts_of_zero(
    tmp_path: Path, format_: str, documents: int, duplicates: int, near_misses: int
) -> None:
    parameters = DocumentParameters(
        documents, duplicates, seed=1, near_misses=near_misses, format=format_
    )
    steps: list[int] = []
    summary = write(parameters, tmp_path / "out", progress=steps.append)
    assert sum(steps) == parameters.steps
    folder = tmp_path / "out"
    total = documents * (1 + duplicates + near_misses)
    assert len(read_documents(folder)) == total
    pairs = documents * duplicates * (duplicates + 1) // 2
    assert len(read_pairs(folder / "truth.tsv")) == summary.truth_pairs == pairs
    assert len(read_pairs(folder / "near-misses.tsv")) == documents * near_misses
    assert summary.files == 3 + total * (format_ == "html")
    assert summary.bytes == sum(path.stat().st_size for path in folder.iterdir())


def test_lines_of_the_truth_have_the_smaller_id_first_and_ascend() -> None:
    collection = Collection(BASE)
    for members in collection.clusters():
        for lines in pair_lines(members):
            ids = [line.split("\t")[:2] for line in lines]
            assert ids == sorted(ids)
            assert all(one < other for one, other in ids)


def test_lines_are_json_in_utf_8(tmp_path: Path) -> None:
    for line in file_lines(made(tmp_path / "out", language="chinese")):
        text = line.decode()
        assert "\\u" not in text.replace("\\u3000", "")
        assert json.dumps(json.loads(text), ensure_ascii=False) + "\n" == text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"documents": -1}, "documents must be from 0 to 1,099,511,627,776, not -1"),
        ({"duplicates_per_document": 1001}, "duplicates_per_document must be .* 1,000, not 1001"),
        ({"near_misses": -2}, "near_misses must be from 0 to 1,000, not -2"),
        ({"length": 63}, "length must be from 64 to 1,000,000, not 63"),
        ({"html_share": 1.1}, "html_share must be from 0 to 1, not 1.1"),
        ({"html_share": float("nan")}, "html_share must be from 0 to 1, not nan"),
        ({"seed": -1}, r"seed must be from 0 to 2\*\*64 - 1, not -1"),
        ({"seed": 2**64}, r"seed must be from 0 to 2\*\*64 - 1, not 18446744073709551616"),
        ({"language": "latin"}, "language must be one of english, chinese, mixed, not 'latin'"),
        ({"format": "xml"}, "format must be one of jsonl, .*, html, not 'xml'"),
        ({"kinds": ("date", "")}, "kinds must be one of advert, .*, exact, not ''"),
        ({"kinds": ()}, "kinds must not be empty"),
        ({"chunk_bytes": 0}, "chunk_bytes must be positive, not 0"),
    ],
)
def test_parameters_are_refused_by_name_and_value(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        dataclasses.replace(BASE, **changes)
