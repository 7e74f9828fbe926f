"""Regret curves as pictures."""

import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from superarm.comparison import Result

# colour-blind-safe (Okabe-Ito); one colour per policy, one line style per belief
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_STYLES = ("-", "--", ":", "-.")


def draw_regret(
    results: Mapping[str, Result],
    path: Path | None,
    *,
    title: str,
    label: str = "cumulative regret",
) -> bytes:
    """Draw mean cumulative regret with a band of one standard error per method.

    Returns the picture (PNG), which is also written to a file if one is named.

    Names of the form ``BELIEF-POLICY`` share the colour of the policy and the line style of the
    belief.
    """
    figure = Figure(figsize=(8, 4.8), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    beliefs = list(dict.fromkeys(name.partition("-")[0] for name in results))
    policies = list(dict.fromkeys(name.partition("-")[2] or name for name in results))
    rounds = np.arange(1, next(iter(results.values())).curves.shape[1] + 1)
    for name, result in results.items():
        belief, _, policy = name.partition("-")
        colour = _COLOURS[policies.index(policy or name) % len(_COLOURS)]
        style = _STYLES[beliefs.index(belief) % len(_STYLES)]
        regret = result.regret
        axes.plot(rounds, regret.mean, style, color=colour, label=name, linewidth=1.8)
        low, high = regret.mean - regret.standard_error, regret.mean + regret.standard_error
        axes.fill_between(rounds, low, high, color=colour, alpha=0.15, linewidth=0)
    repeats = next(iter(results.values())).regret.repeats
    axes.set(xlabel="round", ylabel=label, xlim=(1, rounds.size), ylim=(0, None))
    axes.set_title(f"{title}\nmean and one standard error over {repeats} worlds", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, axis="y", linewidth=0.4, alpha=0.6)
    axes.legend(frameon=False, ncols=2, fontsize=9, loc="upper left")
    picture = io.BytesIO()
    figure.savefig(picture, dpi=150, format="png")
    if path is not None:
        figure.savefig(path, dpi=150)
    return picture.getvalue()
