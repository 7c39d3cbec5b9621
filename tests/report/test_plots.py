"""Plots: heights of columns, labels that fit, and only shapes and text."""

import itertools
import math
from xml.etree import ElementTree

import pytest

from mr_dedup.report.histograms import Histogram
from mr_dedup.report.plots import column_plot


def drawn(histogram, **options):
    return ElementTree.fromstring(
        column_plot(histogram, "sizes", "clusters", "a <title>", **options)
    )


def named(element, name):
    return [e for e in element.iter() if e.tag.rpartition("}")[2] == name]


def columns(plot):
    (series,) = (g for g in named(plot, "g") if g.get("class") == "series columns")
    return [float(rect.get("height")) for rect in named(series, "rect")]


def axis(plot, name):
    (group,) = (g for g in named(plot, "g") if g.get("class") == f"axis {name}")
    ticks = [g for g in named(group, "g") if g.get("class") == "tick"]
    return [named(tick, "text")[0].text for tick in ticks]


@pytest.mark.parametrize(
    "counts", [[1], [0], [0, 0], [3, 1, 2], [1_000_000, 1, 0, 12], [7] * 65, [5] * 128, [10**12, 1]]
)
@pytest.mark.parametrize("is_log", [False, True])
def test_columns_are_as_high_as_their_counts(counts, is_log):
    plot = drawn(Histogram([f"n{i}" for i in range(len(counts))], counts), is_log=is_log)
    heights = columns(plot)
    assert len(heights) == len(counts)
    wanted = [math.log10(1 + count) if is_log else count for count in counts]
    scale = max(heights) / (max(wanted) or 1)
    assert heights == pytest.approx([scale * height for height in wanted], abs=0.011)
    assert max(heights) > 60 or not any(counts)
    assert {e.tag.rpartition("}")[2] for e in plot.iter()} == {
        "svg", "title", "g", "rect", "line", "text",
    }  # fmt: skip
    assert {"sizes", "clusters"} <= {text.text for text in named(plot, "text")}
    assert named(plot, "title")[0].text == "a <title>"


def test_logarithmic_ticks():
    plot = drawn(Histogram(["2", "3–4"], [1234, 1]), is_log=True)
    assert set(axis(plot, "left")) == {"0", "1", "10", "100", "1,000"}
    assert axis(plot, "bottom") == ["2", "3"]


def test_ticks_are_whole_numbers():
    for counts in ([1], [2, 1], [3]):
        labels = axis(drawn(Histogram(list("abcd")[: len(counts)], counts)), "left")
        assert {"0", str(max(counts))} <= set(labels)
        assert all(label is None or label.isdigit() for label in labels)


@pytest.mark.parametrize(
    ("count", "length"), [(15, 2), (21, 4), (128, 7), (30, 11), (1, 60), (5, 3)]
)
def test_labels_fit(count, length):
    labels = [f"{number:0{length}}" for number in range(count)]
    shown = axis(drawn(Histogram(labels, [1] * count)), "bottom")

    assert shown[0] == labels[0]
    steps = {int(b) - int(a) for a, b in itertools.pairwise(shown)}
    assert len(steps) <= 1
    assert len(shown) * (length * 7.5 + 10) <= 360 + length * 7.5 + 10
