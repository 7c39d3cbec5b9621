"""Figures show each tool that was done, once, where its medians are."""

import matplotlib as mpl
import pytest

from bench.field.measure import Measured
from bench.field.plots import costs, draw_growth, draw_quality
from bench.field.quality import Quality
from bench.field.results import FieldResult

mpl.use("agg")

ROUNDS = [{"cpu_seconds": 8.0, "peak_bytes": 3e9}, {"cpu_seconds": 4.0, "peak_bytes": 1e9},
          {"cpu_seconds": 5.0, "peak_bytes": 2e9}]  # fmt: skip


def quality(recall, precision):
    return Quality(0.8, 10, 5, 10, 1, recall, 1, 0.1, 0.9, precision, None)


def measured(name, state="done", rounds=ROUNDS, found=()):
    return Measured(
        name, "1.0", "as it is", "Parquet files", 1, state,
        rounds=list(rounds), kept=1, dropped=1, quality=list(found),
    )  # fmt: skip


def result(gigabytes, *tools):
    return FieldResult(10, int(gigabytes * 1e9), "", 1 << 30, 2, tools)


SMALL = result(
    0.5,
    measured("mr-dedup", found=[quality(1.0, 1.0), quality(0.5, 0.5)]),
    measured("mr-dedup exact", found=[quality(0.25, None)]),
    measured("other", found=[quality(0.75, 0.5)]),
    measured("failed", "failed"),
    measured("absent", "not installed", ()),
)
LARGE = result(5, measured("mr-dedup"), measured("slow", "over time"))


def test_costs_are_medians_a_gigabyte_of_what_was_done():
    found = costs([LARGE, SMALL])
    assert [(each.tool, each.gigabytes, each.seconds, each.memory_bytes) for each in found] == [
        ("mr-dedup", 0.5, 10, 2e9),
        ("mr-dedup exact", 0.5, 10, 2e9),
        ("other", 0.5, 10, 2e9),
        ("mr-dedup", 5, 1, 2e9),
    ]
    assert [(each.missed, each.wrong) for each in found] == [
        (0, 0),
        (0.75, None),
        (0.25, 0.5),
        (None, None),
    ]


def drawn(panel):
    """Return the coordinates in a panel of each label."""
    dots = {each.get_label(): each.get_offsets().tolist() for each in panel.collections}
    lines = {each.get_label(): each.get_xydata().tolist() for each in panel.lines}
    return {**dots, **lines}


def named(figure):
    [legend] = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def test_quality_has_a_dot_for_each_tool_and_none_for_what_is_not_known():
    figure = draw_quality(SMALL)
    missed, wrong = map(drawn, figure.axes)
    assert missed == {
        "mr-dedup": [[pytest.approx(1e-5), 10]],
        "mr-dedup exact": [[0.75, 10]],
        "other": [[0.25, 10]],
    }
    assert wrong == {"mr-dedup": [[pytest.approx(1e-5), 10]], "other": [[0.5, 10]]}
    assert named(figure) == ["mr-dedup", "mr-dedup exact", "other"]
    mpl.pyplot.close(figure)


def test_growth_has_a_line_for_each_tool():
    figure = draw_growth([LARGE, SMALL])
    seconds, memory = map(drawn, figure.axes)
    assert seconds["mr-dedup"] == [[0.5, 10], [5, 1]]
    assert memory["mr-dedup"] == [[0.5, 2], [5, 2]]
    assert seconds["other"] == [[0.5, 10]]
    assert named(figure) == ["mr-dedup", "mr-dedup exact", "other"]
    mpl.pyplot.close(figure)
