"""Figures of what was measured: cost beside quality, and growth with the size of the corpus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from bench.field.environments import OURS
from bench.field.results import FieldResult
from bench.field.running import DONE

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEAST_SHARE = 1e-5
_MARKERS = "osD^vPX*<>ph"


class Cost(NamedTuple):
    """What a tool takes for a corpus, and what it leaves and drops wrongly.

    Attributes:
        tool: its name.
        gigabytes: of text in the corpus.
        seconds: CPU seconds a gigabyte.
        memory_bytes: at the peak.
        missed: the share of pairs of which both were kept, at a similarity of 0.8; None if
            quality was not measured.
        wrong: the share of dropped documents that have no similar kept one; None if nothing was
            dropped.
    """

    tool: str
    gigabytes: float
    seconds: float
    memory_bytes: float
    missed: float | None
    wrong: float | None


def costs(results: Sequence[FieldResult]) -> list[Cost]:
    """Return the costs of all tools that were done, by the size of the corpus."""
    found = []
    for result in sorted(results, key=lambda each: each.text_bytes):
        gigabytes = result.text_bytes / 1e9
        for tool in result.tools:
            seconds, peak = tool.median("cpu_seconds"), tool.median("peak_bytes")
            if tool.state != DONE or seconds is None or peak is None:
                continue
            quality = tool.quality[0] if tool.quality else None
            missed = _rest(quality.recall) if quality else None
            wrong = _rest(quality.precision) if quality else None
            found.append(Cost(tool.tool, gigabytes, seconds / gigabytes, peak, missed, wrong))
    return found


def _rest(share: float | None) -> float | None:
    return None if share is None else 1 - share


def draw_quality(result: FieldResult) -> Figure:
    """Draw CPU time beside what tools miss and drop wrongly, both on a logarithmic scale."""
    from matplotlib import pyplot as plt

    drawn = costs([result])
    figure, panels = plt.subplots(1, 2, figsize=(8.6, 4.6), sharey=True)
    for axes, name, label in (
        (panels[0], "missed", "pairs of which both were kept"),
        (panels[1], "wrong", "dropped without a similar kept one"),
    ):
        for cost in drawn:
            share = getattr(cost, name)
            if share is not None:
                _dot(axes, max(share, _LEAST_SHARE), cost.seconds, cost.tool, drawn)
        axes.set(xscale="log", yscale="log", xlabel=label, xlim=(_LEAST_SHARE / 2, 1.5))
        axes.set_xticks([_LEAST_SHARE, 1e-4, 1e-3, 1e-2, 0.1, 1])
        axes.set_xticklabels(["none", "0.01 %", "0.1 %", "1 %", "10 %", "all"])
        axes.tick_params(axis="x", which="minor", bottom=False)
    panels[0].set_ylabel("CPU seconds a GB")
    _number_ticks(panels[0])
    _legend(figure, panels[0], panels[1])
    return figure


def draw_growth(results: Sequence[FieldResult]) -> Figure:
    """Draw CPU time a gigabyte and memory by the size of the corpus, for each tool a line."""
    from matplotlib import pyplot as plt

    drawn = costs(results)
    figure, panels = plt.subplots(1, 2, figsize=(8.6, 4.6))
    for tool in dict.fromkeys(cost.tool for cost in drawn):
        lines = [cost for cost in drawn if cost.tool == tool]
        sizes = [cost.gigabytes for cost in lines]
        colour, marker = _look(tool, drawn)
        style = {"color": colour, "marker": marker, "markersize": 5, "label": tool}
        panels[0].plot(sizes, [cost.seconds for cost in lines], **style)
        panels[1].plot(sizes, [cost.memory_bytes / 1e9 for cost in lines], **style)
    sizes = sorted({round(cost.gigabytes, 1) for cost in drawn})
    for axes, label in zip(panels, ("CPU seconds a GB", "memory, GB"), strict=True):
        axes.set(xscale="log", yscale="log", xlabel="GB of text", ylabel=label)
        axes.set_xticks(sizes, [f"{size:g}" for size in sizes])
        axes.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
        _number_ticks(axes)
    _legend(figure, *panels)
    return figure


def _dot(axes: Axes, across: float, up: float, tool: str, drawn: Sequence[Cost]) -> None:
    colour, marker = _look(tool, drawn)
    size = 60 if tool == OURS else 30
    axes.scatter([across], [up], s=size, color=colour, marker=marker, label=tool)


def _number_ticks(axes: Axes) -> None:
    """Label 1, 2 and 5 of each power of ten of the y axis, as numbers."""
    from matplotlib import ticker

    axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())


def _look(tool: str, drawn: Sequence[Cost]) -> tuple[tuple[float, float, float, float], str]:
    """Return the colour of the family of a tool, and the marker of its set-up."""
    import matplotlib as mpl

    families = list(dict.fromkeys(_family(cost.tool) for cost in drawn))
    family = _family(tool)
    same = list(dict.fromkeys(cost.tool for cost in drawn if _family(cost.tool) == family))
    colour = mpl.colormaps["tab20" if len(families) > 10 else "tab10"](families.index(family))
    return colour, _MARKERS[same.index(tool) % len(_MARKERS)]


def _family(tool: str) -> str:
    return tool.split()[0]


def _legend(figure: Figure, *panels: Axes) -> None:
    """Name what is in either panel, once, beside them."""
    named: dict[str, Artist] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    handles, labels = list(named.values()), list(named)
    figure.legend(handles, labels, loc="outside right upper", fontsize=8)
