"""A fit as a picture: which features matter, and what else was found."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from superarm.fitting.evidence import MEAN
from superarm.fitting.hyperpriors import LogNormal

if TYPE_CHECKING:
    from superarm.fitting.fit import Fit

_BLUE, _GREY, _RED = "#0072B2", "#9A9A9A", "#D55E00"
_MOST_SHOWN = 40


def _lengthscales_on(axes: Axes, fit: "Fit[Any]", features: list[str] | None = None) -> None:
    """Draw how far each feature reaches, with its standard error: what is short matters most.

    Args:
        axes: where to draw.
        fit: what was found.
        features: their names, in the order of the contexts; numbers by default.
    """
    names = [name for name in fit.values if name.rpartition(".")[2].startswith("lengthscale")]
    spread = fit.feature_spread
    rows = []
    for name in names:
        last = name.rpartition(".")[2]
        place = int(last[last.index("[") + 1 : -1]) if last.endswith("]") else None
        unit = spread[place] if place is not None else np.exp(np.log(spread[spread > 0]).mean())
        if not unit > 0:
            continue
        said = "all features" if place is None else _named(features, place)
        before = name[: len(name) - len(last)].rstrip(".")
        rows.append((f"{said} ({before})" if before else said, name, float(unit)))
    rows = sorted(rows, key=lambda row: fit.values[row[1]] / row[2])[:_MOST_SHOWN]
    for height, (_, name, unit) in enumerate(rows):
        value = fit.values[name] / unit
        relative = fit.standard_errors[name] / fit.values[name]
        low, high = value * math.exp(-relative), value * math.exp(relative)
        prior = fit.hyperpriors.get(name)
        if isinstance(prior, LogNormal):
            label = "before the data" if height == 0 else None
            middle = prior.median / unit
            axes.plot(middle, height, "|", color=_GREY, markersize=12, label=label)
        axes.plot([low, high], [height, height], color=_BLUE, linewidth=2.5, solid_capstyle="round")
        axes.plot(value, height, marker="o", color=_BLUE, markersize=7)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="lower right", frameon=False, fontsize=8)
    axes.set_yticks(range(len(rows)), [row[0] for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel("lengthscale, in deviations of the feature: the shorter, the more it matters")
    axes.grid(axis="x", alpha=0.3)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def plot_lengthscales(fit: "Fit[Any]", features: list[str] | None = None) -> Figure:
    """Return a picture of a fit: lengthscales, and all other parameters in words.

    Args:
        fit: what was found.
        features: their names, in the order of the contexts; numbers by default.
    """
    names = [name for name in fit.values if name.rpartition(".")[2].startswith("lengthscale")]
    figure = Figure(figsize=(8, 2.2 + 0.42 * min(len(names), _MOST_SHOWN)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    if names:
        _lengthscales_on(axes, fit, features)
    else:
        axes.set_axis_off()
    others = [name for name in fit.values if name not in names]
    said = ", ".join(
        f"{name} {fit.values[name]:.3g} ± {fit.standard_errors[name]:.2g}"
        for name in sorted(others, key=lambda name: name == MEAN)
    )
    gain = fit.evidence - fit.evidence_before
    axes.set_title(
        f"{said}\nlog evidence {fit.evidence:,.1f}, {gain:+,.1f}", fontsize=10, loc="left"
    )
    if fit.problems:
        text = "\n".join(f"note: {problem}" for problem in fit.problems)
        figure.supxlabel(text, fontsize=8, color=_RED, x=0.01, ha="left")
    return figure


def _named(features: list[str] | None, place: int) -> str:
    return f"feature {place}" if features is None else features[place]
