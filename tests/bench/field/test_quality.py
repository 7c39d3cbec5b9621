"""Recall and precision of what a tool kept, beside their definitions in plain loops."""

import json

import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

import mr_dedup
from bench.field import quality, truth
from bench.field.quality import Outcome, Truth, decisions_of, kept_of, measure

IDS = [f"d{n}" for n in range(9)]


@st.composite
def cases(draw):
    """Similarities of all pairs, a sample, kept documents, and which one each dropped one names."""
    similarities = {}
    for i, one in enumerate(IDS):
        for other in IDS[:i]:
            similarity = draw(st.sampled_from([0.0, 0.3, 0.7, 0.75, 0.8, 0.95, 1.0]))
            similarities[one, other] = similarities[other, one] = similarity
    sample = draw(st.sets(st.sampled_from(IDS)))
    kept = draw(st.sets(st.sampled_from(IDS)))
    named = {each: draw(st.sampled_from(IDS)) for each in IDS if each not in kept}
    return similarities, sample, kept, named


def as_truth(similarities, sample):
    pairs = [(*pair, j) for pair, j in similarities.items() if pair[0] in sample and j >= 0.7]
    columns = zip(*pairs, strict=True) if pairs else ([], [], [])
    table = pa.table([pa.array(column) for column in columns], ["id", "other", "jaccard"])
    return Truth(pa.array(sorted(sample), pa.string()), table.cast(truth.PAIRS))


def as_outcome(kept, named):
    ids = pa.array(named.keys(), pa.string())
    kept_for = pa.table({"id": ids, "kept_id": pa.array(named.values(), pa.string())})
    return Outcome(pa.array(sorted(kept), pa.large_string()), ids, kept_for)


def share(of, holds):
    of = list(of)
    return sum(map(holds, of)) / len(of) if of else None


@given(cases(), st.sampled_from([0.7, 0.8, 0.9]))
def test_quality_is_as_defined(case, threshold):
    similarities, sample, kept, named = case

    def similar(one):
        return [o for o in IDS if o != one and similarities[one, o] >= threshold]

    def kept_similar(one):
        return [other for other in similar(one) if other in kept]

    pairs = [(one, other) for one in sample for other in similar(one)]
    found = measure(as_truth(similarities, sample), as_outcome(kept, named), threshold)
    assert found.sample == len(sample)
    assert found.kept == len(sample & kept)
    assert found.pairs == len(pairs)
    assert found.pairs_left == sum(one in kept and other in kept for one, other in pairs)
    assert found.recall == share(pairs, lambda pair: not kept.issuperset(pair))
    assert found.left == sum(bool(kept_similar(one)) for one in sample & kept)
    assert found.left_share == share(sample & kept, lambda one: bool(kept_similar(one)))
    assert found.found_share == share(
        [one for one in sample if similar(one)],
        lambda one: one not in kept or not kept_similar(one),
    )
    assert found.precision == share(sample - kept, lambda one: bool(kept_similar(one)))
    assert found.precision_named == share(
        sample - kept, lambda one: named[one] in kept_similar(one)
    )


@given(cases())
def test_what_is_not_kept_is_dropped_where_a_tool_does_not_say(case):
    similarities, sample, kept, named = case
    found = as_truth(similarities, sample)
    all_said, kept_said = as_outcome(kept, named), as_outcome(kept, named)._replace(dropped=None)
    assert measure(found, all_said, 0.8) == measure(found, kept_said, 0.8)


@pytest.mark.parametrize(("kept", "dropped"), [(["a"], []), (["a", "b"], ["b"]), ([], ["a"])])
def test_documents_without_one_decision_are_named(kept, dropped):
    outcome = Outcome(pa.array(kept, pa.string()), pa.array(dropped, pa.string()))
    with pytest.raises(ValueError, match="b was neither kept nor dropped, or both"):
        measure(as_truth({}, {"a", "b"}), outcome, 0.8)


@pytest.fixture
def measured(tmp_path):
    """Documents in Parquet, their truth, and what mr_dedup made of them."""
    words = [
        "the",
        "quick",
        "brown",
        "fox",
        "jumps",
        "over",
        "one",
        "lazy",
        "dog",
        "and",
        "runs",
        "away",
        "from",
        "it",
        "all",
    ]
    texts = {f"a{n}": " ".join([*words, str(n % 3)]) for n in range(6)}
    texts |= {f"b{n}": " ".join(f"{word}{n}" for word in words) for n in range(3)}
    table = pa.table({"id": texts.keys(), "text": texts.values()})
    folder = tmp_path / "corpus"
    folder.mkdir()
    pq.write_table(table, folder / "part-0000.parquet")
    truth.main([str(folder), str(tmp_path / "truth")])
    mr_dedup.dedup([folder], out=tmp_path / "out", documents="jsonl")
    return tmp_path


def test_the_outcome_of_dedup_is_read_from_its_decisions(measured):
    found = Truth.read(measured / "truth")
    outcome = decisions_of(measured / "out/decisions")
    assert sorted(outcome.kept.to_pylist()) == ["a0", "b0", "b1", "b2"]
    result = measure(found, outcome, 0.8)
    assert (result.recall, result.precision, result.precision_named) == (1, 1, 1)
    assert (result.sample, result.kept, result.left, result.pairs) == (9, 4, 0, 30)


@pytest.mark.parametrize(
    "lines",
    [
        {"kept.txt": "a0\nb0\nb1\nb2\n"},
        {"kept.jsonl": "".join(json.dumps({"id": i, "text": ""}) + "\n" for i in ("a0", "b0"))},
        {"kept/1.jsonl": '{"id": "a0"}\n', "kept/2.txt": "b1\nb2", "kept/_SUCCESS": ""},
    ],
)
def test_kept_documents_of_other_tools_are_read(lines, tmp_path):
    for name, text in lines.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    kept = kept_of(tmp_path / next(iter(lines)).partition("/")[0])
    written = "".join(lines.values())
    assert [i for i in ("a0", "b0", "b1", "b2") if i in written] == kept.kept.to_pylist()


def test_the_command_prints_quality_at_both_thresholds(measured, capsys):
    quality.main([str(measured / "truth"), "--decisions", str(measured / "out/decisions")])
    ours = json.loads(capsys.readouterr().out)
    assert [each["threshold"] for each in ours] == [0.8, 0.7]
    ids = decisions_of(measured / "out/decisions").kept
    pq.write_table(pa.table({"id": ids}), measured / "kept.parquet")
    quality.main([str(measured / "truth"), "--kept", str(measured / "kept.parquet")])
    same = json.loads(capsys.readouterr().out)
    assert same == [{**each, "precision_named": None} for each in ours]


@pytest.mark.parametrize("line", ["a0", "[]", "{}", "1", "[" * 100_000])
def test_a_line_that_has_no_id_is_named(line, measured, capsys):
    path = measured / "kept.jsonl"
    path.write_text('{"id": 1}\n' + line)
    with pytest.raises(SystemExit) as ended:
        quality.main([str(measured / "truth"), "--kept", str(path)])
    assert ended.value.code == 2
    assert f"{path}:2: not a JSON object with id" in capsys.readouterr().err


def test_an_empty_directory_is_a_usage_error(measured, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    with pytest.raises(SystemExit):
        quality.main([str(measured / "truth"), "--kept", str(tmp_path / "empty")])
    assert "empty: contains no files" in capsys.readouterr().err
