"""Regret, posteriors and calibration as pictures."""

import io
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from superarm.arrays import Vector, as_vector
from superarm.evaluation.calibration import Calibration
from superarm.evaluation.comparison import Result
from superarm.evaluation.regret import BayesianRegret
from superarm.protocols import Posterior

# colour-blind-safe (Okabe-Ito, then Tol's muted ones); one colour per policy, one style per belief
COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"),
    *("#000000", "#882255", "#999933", "#332288", "#8A5A2B", "#7F7F7F"),
)
LineStyle = str | tuple[int, tuple[int, ...]]
_STYLES: tuple[LineStyle, ...] = (
    *("-", "--", ":", "-."),
    *((0, (6, 1, 1, 1, 1, 1)), (0, (1, 3)), (0, (8, 4))),
)

_FAR_APART = 5  # regrets that differ by more are drawn on a logarithmic scale
_PICTURES = (".png", ".pdf", ".svg")

INTERVAL = 1.645
"""Standard deviations on either side that hold 90 per cent of a normal distribution."""


def plot_regret(
    results: Mapping[str, Result], *, title: str = "", label: str = "cumulative regret"
) -> Figure:
    """Return a picture of the regret of some agents: means and one standard error over worlds.

    Args:
        results: of `superarm.evaluation.compare`.
        title: above it.
        label: what regret is, with its unit.
    """
    if not results:
        msg = "there are no results to show"
        raise ValueError(msg)
    figure = Figure(figsize=(8, 4.8), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    regret_on(axes, {name: result.regret for name, result in results.items()})
    repeats = next(iter(results.values())).regret.repeats
    scale = ", log scale" if axes.get_yscale() == "log" else ""
    axes.set(xlabel="round", ylabel=label + scale)
    said = f"mean and one standard error over {repeats} worlds"
    axes.set_title(f"{title}\n{said}" if title else said, fontsize=11)
    axes.legend(
        frameon=False,
        ncols=2,
        fontsize=9,
        loc="lower right" if axes.get_yscale() == "log" else "upper left",
    )
    return figure


def regret_on(
    axes: Axes,
    regrets: Mapping[str, BayesianRegret],
    styles: Mapping[str, tuple[str, LineStyle]] | None = None,
    *,
    logarithmic: bool | None = None,
) -> None:
    """Plot mean cumulative regret with a band of one standard error per method.

    Names of the form ``BELIEF-POLICY`` share the colour of the policy and the line style of the
    belief, unless styles are given. Where regrets end far apart the scale is logarithmic: on a
    linear one the best methods, which matter, would be one flat line.

    Args:
        axes: where to draw.
        regrets: by method.
        styles: colour and line style by method.
        logarithmic: the scale, if it is not to follow from these regrets alone.
    """
    styles = styles or line_styles(regrets)
    for name, regret in regrets.items():
        rounds = np.arange(1, regret.mean.size + 1)
        colour, style = styles[name]
        axes.plot(rounds, regret.mean, linestyle=style, color=colour, label=name, linewidth=1.8)
        low, high = regret.mean - regret.standard_error, regret.mean + regret.standard_error
        low = np.maximum(low, 1e-3 * regret.mean)  # a logarithmic scale has no zero
        axes.fill_between(rounds, low, high, color=colour, alpha=0.15, linewidth=0)
    longest = max((regret.mean.size for regret in regrets.values()), default=1)
    axes.set(xlim=(1, max(longest, 2)), ylim=(0, None))
    if far_apart(regrets) if logarithmic is None else logarithmic:
        starts = [float(r.mean[min(4, r.mean.size - 1)]) for r in regrets.values()]
        ends = [float(r.mean[-1]) for r in regrets.values()]
        positive = [value for value in starts + ends if value > 0]
        floor = min(positive) if positive else 1.0
        axes.set(yscale="log", ylim=(max(floor, max(ends) / 1e4), None))
    tidy(axes)


def far_apart(regrets: Mapping[str, BayesianRegret]) -> bool:
    """Say whether regrets end so far apart that a linear scale would show the largest only."""
    ends = [float(regret.mean[-1]) for regret in regrets.values() if regret.mean[-1] > 0]
    return bool(ends) and max(ends) > _FAR_APART * min(ends)


def line_styles(names: Iterable[str]) -> dict[str, tuple[str, LineStyle]]:
    """Return a colour and a line style per method; no two methods look alike if there are few.

    Methods of one policy, or names without one, differ in colour.
    """
    given = list(names)
    beliefs = list(dict.fromkeys(name.partition("-")[0] for name in given))
    policies = list(dict.fromkeys(name.partition("-")[2] or name for name in given))
    one_policy = len(policies) == 1
    return {
        name: (
            COLOURS[
                (
                    beliefs.index(name.partition("-")[0])
                    if one_policy
                    else policies.index(name.partition("-")[2] or name)
                )
                % len(COLOURS)
            ],
            _STYLES[beliefs.index(name.partition("-")[0]) % len(_STYLES)],
        )
        for name in given
    }


def require_picture(path: Path) -> None:
    """Refuse a file that no picture can be written to, before the work is done."""
    if path.suffix.lower() not in _PICTURES:
        msg = f"{path}: pictures end in {', '.join(_PICTURES)}"
        raise ValueError(msg)
    path.parent.mkdir(parents=True, exist_ok=True)


def tidy(axes: Axes) -> None:
    """Leave out lines that say nothing."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, axis="y", linewidth=0.4, alpha=0.6)


def draw_regret(
    results: Mapping[str, Result],
    path: Path | None,
    *,
    title: str,
    label: str = "cumulative regret",
) -> bytes:
    """Draw the regret of some methods and return the picture (PNG); also to a file, if named."""
    figure = plot_regret(results, title=title, label=label)
    picture = io.BytesIO()
    figure.savefig(picture, dpi=150, format="png")
    if path is not None:
        figure.savefig(path, dpi=150)
    return picture.getvalue()


def plot_posterior(
    posterior: Posterior,
    names: Iterable[object] | None = None,
    *,
    truth: ArrayLike | None = None,
    most: int = 40,
) -> Figure:
    """Return a picture of what is believed of some arms: means and 90 % intervals, best first.

    Args:
        posterior: of these arms.
        names: of the arms; their positions by default.
        truth: their expected rewards, shape (n,), where these are known.
        most: how many to show; the best and the worst, if there are more.
    """
    mean, std = np.asarray(posterior.mean), np.asarray(posterior.std)
    named = list(range(mean.size)) if names is None else list(names)
    if len(named) != mean.size:
        msg = f"{len(named)} names for {mean.size} arms"
        raise ValueError(msg)
    order = np.argsort(-mean, kind="stable")
    if order.size > most:
        order = np.concatenate([order[: most - most // 4], order[order.size - most // 4 :]])
    shown = order.size
    figure = Figure(figsize=(8, 1.4 + 0.19 * max(shown, 3)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    height = np.arange(shown)
    reach = INTERVAL * std[order]
    axes.errorbar(
        mean[order], height, xerr=reach, fmt="o", color=COLOURS[0], markersize=4,
        linewidth=1.6, label="believed, 90 % interval",
    )  # fmt: skip
    if truth is not None:
        known = as_vector("truth", truth, mean.size)
        axes.plot(known[order], height, "x", color=COLOURS[1], markersize=6, label="truth")
    labels = [str(named[place]) for place in order]
    axes.set_yticks(height, labels, fontsize=8)
    axes.set_ylim(shown - 0.4, -0.6)
    if shown < mean.size:
        axes.axhline(shown - most // 4 - 0.5, color="#9A9A9A", linewidth=0.8, linestyle=":")
        axes.set_title(
            f"the best {shown - most // 4} and the worst {most // 4} of {mean.size:,}", fontsize=10
        )
    axes.set_xlabel("expected reward")
    tidy(axes)
    axes.grid(visible=True, axis="x", linewidth=0.4, alpha=0.6)
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    return figure


def plot_calibration(calibration: Calibration, *, title: str = "") -> Figure:
    """Return a picture of whether predictions are as sure as they claim.

    On the left the share of rewards within intervals of every probability (on the diagonal if all
    is well; the band is chance), on the right rewards beside their predictions.

    Args:
        calibration: of `superarm.evaluation.calibration_of`.
        title: above it.
    """
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    levels = np.linspace(0.01, 0.99, 99)
    covered = [calibration.coverage(level) for level in levels]
    band = np.array([calibration.expected(level) for level in levels])
    left.fill_between(
        levels, band[:, 0], band[:, 1], color="#9A9A9A", alpha=0.3, linewidth=0, label="chance"
    )
    left.plot([0, 1], [0, 1], color="#9A9A9A", linewidth=0.8)
    left.plot(levels, covered, color=COLOURS[0], linewidth=1.8, label="seen")
    left.set(
        xlim=(0, 1), ylim=(0, 1), xlabel="probability of the interval", ylabel="share within it"
    )
    left.legend(frameon=False, fontsize=9, loc="upper left")
    right.plot(
        calibration.mean, calibration.rewards, ".", color=COLOURS[0], markersize=4, alpha=0.6
    )
    ends = [
        min(calibration.mean.min(), calibration.rewards.min()),
        max(calibration.mean.max(), calibration.rewards.max()),
    ]
    right.plot(ends, ends, color="#9A9A9A", linewidth=0.8)
    right.set(xlabel="predicted", ylabel="seen")
    for axes in (left, right):
        tidy(axes)
    if title:
        figure.suptitle(title, fontsize=11)
    return figure


def draw_bound(regret: BayesianRegret, curve: Vector, total: float, path: Path) -> None:
    """Draw measured regret with its bounds, on a logarithmic scale.

    Args:
        regret: measured.
        curve: the bound by the information of the runs, shape (T,).
        total: the bound by the maximal information gain, at T.
        path: the file to write, PNG or PDF.
    """
    figure = Figure(figsize=(8, 4.8), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    rounds = np.arange(1, regret.mean.size + 1)
    axes.plot(rounds, regret.mean, color=COLOURS[0], linewidth=1.8, label="measured regret")
    low, high = regret.mean - regret.standard_error, regret.mean + regret.standard_error
    axes.fill_between(
        rounds, np.maximum(low, 1e-12), high, color=COLOURS[0], alpha=0.2, linewidth=0
    )
    axes.plot(rounds, curve, "--", color=COLOURS[1], linewidth=1.8, label="bound, gain of the runs")
    axes.plot(rounds[-1:], [total], "v", color=COLOURS[3], label="bound, maximal gain")
    axes.set(xlabel="round", ylabel="Bayesian cumulative regret", yscale="log")
    axes.set_title(f"Regret and its bounds, {regret.repeats} worlds", fontsize=11)
    tidy(axes)
    axes.legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=150)
