"""Networks, routes, exploration and what was learned, drawn as maps.

======================  ============================================================================
what a panel shows      made by
======================  ============================================================================
routes, roads           `Panel` itself
heights                 `height_panel`
energy per kilometre    `per_km_panel`
where was explored      `exploration_panel`
what is still unknown   `uncertainty_panel`
======================  ============================================================================

`draw_maps` draws several panels side by side.
"""

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

from superarm.arrays import Matrix, Rows, Vector
from superarm.roads.network.network import RoadNetwork

ROUTE_COLOURS = ("#D55E00", "#0072B2", "#CC79A7", "#E69F00")
_GREY = "#c9ccd1"


__all__ = [
    "Panel",
    "draw_maps",
    "exploration_panel",
    "height_panel",
    "per_km_panel",
    "segments_of",
    "uncertainty_panel",
]


@dataclass(frozen=True, eq=False)
class Panel:
    """One map: colours and widths per edge, routes on top.

    Attributes:
        values: what colours show, shape (n,); none for a grey map. NaN leaves an edge grey.
        label: what the colour bar says.
        widths: line widths in points, shape (n,); by road class if none.
        logarithmic: whether colours are on a logarithmic scale.
        limits: ends of the colour scale, so that panels can share them.
        routes: edges to mark by name, positions, shape (k,) each.
        colours: the name of a colour map of matplotlib.
    """

    title: str
    values: Vector | None = None
    label: str = ""
    widths: Vector | None = None
    colours: str = "viridis"
    logarithmic: bool = False
    limits: tuple[float, float] | None = None
    routes: Mapping[str, Rows] = field(default_factory=dict)


def height_panel(network: RoadNetwork, routes: Mapping[str, Rows], title: str = "") -> Panel:
    """Return the network coloured by height, with routes."""
    heights = network.junction_height_m
    middle = (heights[network.from_junction] + heights[network.to_junction]) / 2
    return Panel(title or network.name, middle, "height (m)", colours="viridis", routes=routes)


def exploration_panel(visits: Vector, title: str, *, most: float | None = None) -> Panel:
    """Return a map whose widths and colours show how often edges were driven."""
    top = float(most or max(visits.max(), 1.0))
    share = np.sqrt(visits / top)
    return Panel(
        title,
        np.where(visits > 0, visits, np.nan),
        "visits",
        widths=np.where(visits > 0, 0.6 + 3.4 * share, 0.25),
        colours="plasma_r",
        logarithmic=True,
        limits=(1.0, max(top, 2.0)),
    )


def per_km_panel(network: RoadNetwork, energy_wh: Vector, title: str) -> Panel:
    """Return a map of energy per kilometre, cut at the 2nd and 98th percentile."""
    values = energy_wh / (network.length_m / 1000)
    low, high = np.quantile(values, [0.02, 0.98])
    return Panel(title, values, "Wh per km", colours="viridis", limits=(float(low), float(high)))


def uncertainty_panel(std_wh: Vector, prior_std_wh: Vector, title: str) -> Panel:
    """Return a map of what is still unknown: posterior over prior standard deviation."""
    share = std_wh / prior_std_wh
    return Panel(
        title, share, "posterior / prior standard deviation", colours="cividis", limits=(0, 1)
    )


def draw_maps(
    network: RoadNetwork, panels: Sequence[Panel], path: Path | None, *, columns: int = 2
) -> bytes:
    """Draw maps side by side and return the picture (PNG); also to a file, if one is named."""
    rows = math.ceil(len(panels) / columns)
    columns = min(columns, len(panels))
    low, high = network.shape_xy_m.min(axis=0), network.shape_xy_m.max(axis=0)
    aspect = float((high[1] - low[1]) / (high[0] - low[0]))
    width = 10.5 / columns
    figure = Figure(figsize=(10.5, rows * (width * aspect * 0.86 + 0.55)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False)
    lines = segments_of(network)
    for place, axis in enumerate(axes.flat):
        if place < len(panels):
            _draw(axis, network, panels[place], lines)
        else:
            axis.set_axis_off()
    picture = io.BytesIO()
    figure.savefig(picture, dpi=150, format="png")
    if path is not None and path.suffix == ".png":
        path.write_bytes(picture.getvalue())
    elif path is not None:
        figure.savefig(path)
    return picture.getvalue()


def segments_of(network: RoadNetwork) -> list[Matrix]:
    """Return the points of every edge."""
    return np.split(network.shape_xy_m, network.shape_start[1:-1])


def _draw(axis: Axes, network: RoadNetwork, panel: Panel, lines: list[Matrix]) -> None:
    scale = min(1.0, math.sqrt(6000 / network.n_edges) + 0.15)
    widths = panel.widths
    if widths is None:
        widths = 0.35 + 0.5 * (network.lanes > 1) + 0.9 * (network.speed_ms > 22)  # noqa: PLR2004
    order = np.argsort(widths, kind="stable")
    drawn = LineCollection(
        [lines[i] for i in order], linewidths=scale * widths[order], capstyle="round"
    )
    if panel.values is None:
        drawn.set_color(_GREY)
        axis.add_collection(drawn)
    else:
        _colour(axis, panel, drawn, panel.values[order])
    for (name, route), colour in zip(panel.routes.items(), ROUTE_COLOURS, strict=False):
        points = np.concatenate([lines[i] for i in route])
        axis.plot(*points.T, color=colour, linewidth=2.4, label=name, solid_capstyle="round")
        axis.plot(*points[0], "o", color=colour, markersize=6, markeredgecolor="white")
        axis.plot(*points[-1], "*", color=colour, markersize=12, markeredgecolor="white")
    if panel.routes:
        for mark, size, meaning in (("o", 6, "start"), ("*", 12, "goal")):
            look: dict[str, Any] = {"linestyle": "none", "color": "#5b6472", "markeredgecolor": "w"}
            axis.plot([], [], marker=mark, markersize=size, label=meaning, **look)
        axis.legend(fontsize=8, frameon=True, framealpha=0.9, loc="lower right")
    axis.autoscale()
    axis.set_aspect("equal")
    axis.set_axis_off()
    axis.set_title(panel.title, fontsize=11)
    _scale_bar(axis, network)


def _colour(axis: Axes, panel: Panel, drawn: LineCollection, values: Vector) -> None:
    known = values[np.isfinite(values)]
    if panel.limits is not None:
        low, high = panel.limits
    else:
        low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    drawn.set_norm(LogNorm(low, high) if panel.logarithmic else Normalize(low, high))
    drawn.set_cmap(colormaps[panel.colours].with_extremes(bad=_GREY))
    drawn.set_array(np.ma.masked_invalid(values))
    axis.add_collection(drawn)
    figure = axis.get_figure()
    if figure is not None:
        bar = figure.colorbar(drawn, ax=axis, shrink=0.7, pad=0.01, aspect=28)
        bar.set_label(panel.label, fontsize=8)
        bar.ax.tick_params(labelsize=7)


def _scale_bar(axis: Axes, network: RoadNetwork) -> None:
    low, high = network.shape_xy_m.min(axis=0), network.shape_xy_m.max(axis=0)
    wanted = 0.2 * float(high[0] - low[0])
    unit = 10 ** math.floor(math.log10(wanted))
    length = max(step * unit for step in (1, 2, 5) if step * unit <= wanted)
    x, y = float(low[0]), float(low[1] - 0.02 * (high[1] - low[1]))
    axis.plot([x, x + length], [y, y], color="black", linewidth=2, solid_capstyle="butt")
    text = f"{length / 1000:g} km" if length >= 1000 else f"{length:g} m"  # noqa: PLR2004
    axis.text(x + length / 2, y, text, ha="center", va="bottom", fontsize=8)
