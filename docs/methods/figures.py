"""The style of the figures on these pages: SVG that is readable in a light and in a dark theme."""

from __future__ import annotations

import matplotlib as mpl
from matplotlib_inline.backend_inline import set_matplotlib_formats

BLUE, ORANGE, GREEN, PURPLE, GREY = "#3a86c8", "#d9730d", "#2e9e5b", "#9467bd", "#808080"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, GREY)


def use_style() -> None:
    """Set Matplotlib's parameters: transparent background, grey axes and text, equal bytes."""
    set_matplotlib_formats("svg", metadata={"Date": None})
    text = ("text.color", "axes.labelcolor", "axes.titlecolor", "axes.edgecolor", "xtick.color")
    mpl.rcParams.update(dict.fromkeys((*text, "ytick.color", "legend.labelcolor"), GREY))
    mpl.rcParams.update(
        {
            "axes.facecolor": "none",
            "axes.prop_cycle": mpl.cycler(color=COLOURS),
            "axes.spines.right": False,
            "axes.spines.top": False,
            "axes.titlesize": 10,
            "figure.constrained_layout.use": True,
            "figure.facecolor": "none",
            "font.size": 10,
            "legend.fontsize": 9,
            "legend.frameon": False,
            "svg.hashsalt": "mr_dedup",
            "xtick.labelsize": 9,
            "ytick.labelsize": 9,
        }
    )
