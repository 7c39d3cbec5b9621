"""Groups of descriptions: what one task of a cluster reads."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.engines.inputs import Input
from mr_dedup.engines.streaming.described import TASK_BYTES, DescribedGroup, grouped

ENDINGS = (".chunk.json", ".shards.json", ".remote.json")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("described")
    for number in range(40):
        name = f"{number:06}{ENDINGS[number % 3]}"
        (folder / name).write_text(f'{{"number": {number}, "name": "é\t"}}', "utf-8")
    return sorted(folder.iterdir())


@given(costs=st.lists(st.sampled_from([0, 1, TASK_BYTES // 3, TASK_BYTES, 9 * TASK_BYTES]),
                      max_size=40))  # fmt: skip
def test_groups_have_all_inputs_in_order_and_are_not_too_large(written, costs):
    inputs = [
        Input(str(path), f"pages\t{number}\udcff", cost_bytes=cost)
        for number, (path, cost) in enumerate(zip(written, costs, strict=False))
    ]
    groups = list(grouped(inputs))
    found = [each for group in groups for each in group.inputs]
    assert [each.number for each in found] == list(range(len(inputs)))
    for each, item in zip(found, inputs, strict=True):
        assert item.location.endswith(each.ending)
        assert each.name == item.name
        assert each.content == written[each.number].read_text("utf-8")
    for group in groups:
        of_group = [costs[each.number] for each in group.inputs]
        assert len(of_group) == 1 or (0 not in of_group and sum(of_group) <= TASK_BYTES)
    # as few as their order allows
    for one, other in itertools.pairwise(groups):
        first, second = one.inputs, other.inputs[0]
        total = sum(costs[each.number] or TASK_BYTES for each in first)
        assert not costs[second.number] or total + costs[second.number] > TASK_BYTES


def test_other_inputs_are_not_described(written):
    inputs = [
        Input("hdfs:///pages.chunk.json", "a"),
        Input("pages.jsonl", "b"),
        Input(str(written[0]), "c"),
    ]
    [group] = grouped(inputs)
    assert [each.number for each in group.inputs] == [2]
    assert group.uri == "described://000002"


def test_a_group_is_a_line(written):
    [group] = grouped([Input(str(written[0]), "a\tb\n\udcff", cost_bytes=1)])
    text = group.encode()
    assert text.isascii()
    assert not {"\t", "\n"} & set(text)
    assert DescribedGroup.decode(text.encode()) == group
