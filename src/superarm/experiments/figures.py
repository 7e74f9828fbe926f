"""From stored runs to the paper's figures: PNG for pages, PDF for print."""

import io
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from superarm.arrays import Rows, Vector
from superarm.errors import DataError
from superarm.evaluation.figures import COLOURS, far_apart, line_styles, regret_on, tidy
from superarm.evaluation.regret import BayesianRegret, bayesian_regret
from superarm.experiments.build import width_of
from superarm.experiments.config import POINTS, RANDOM_ROUTE
from superarm.experiments.plan import network_name
from superarm.experiments.study import RANDOM, REGRET, Cell, Study, titled
from superarm.gaussian import rectified_mean
from superarm.oracles import Dijkstra, Paths
from superarm.roads.conventions import Efficiency
from superarm.roads.maps import draw_maps, exploration_panel, height_panel
from superarm.roads.models.paper import EnergyModel
from superarm.roads.network.network import RoadNetwork

Drawn = dict[str, bytes]
"""Pictures (PNG) by file name without ending."""

_COLUMNS = 3
_MOST_INSIDE = 9  # more methods are explained beside the panels


def draw_figures(study: Study, folder: Path) -> Drawn:
    """Draw the figures an experiment declares, as PNG and PDF, from its stored runs alone."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn: Drawn = {}
    for name in study.experiment.figures:
        if name != "networks" and not study.cells:
            why = "; ".join(study.notes) or "no run is finished yet; run the experiment first"
            msg = f"{study.store.folder}: {why}"
            raise DataError(msg)
        found = dict(_KINDS[name](study, folder))
        if not found:
            study.notes.append(f"figure {name}: nothing in this study can be shown by it")
        drawn |= found
    return drawn


def _regret(study: Study, folder: Path) -> Iterator[tuple[str, bytes]]:
    """Cumulative regret per route, one figure per kind of world."""
    styles = line_styles(study.experiment.methods)
    for world, cells in _by_world(study).items():
        places = _places(cells)
        figure, panels = _panels(len(places))
        repeats: set[int] = set()
        regrets = [
            {cell.method: _regret_of(study, cell) for cell in _at(cells, place)} for place in places
        ]
        logarithmic = any(map(far_apart, regrets))  # one scale for all panels
        for axes, place, shown in zip(panels, places, regrets, strict=False):
            repeats |= {regret.repeats for regret in shown.values()}
            regret_on(axes, shown, styles, logarithmic=logarithmic)
            label = _regret_label(place) + (", log scale" if logarithmic else "")
            axes.set(title=_title(place), xlabel="round t", ylabel=label)
        _legend(panels)
        _caption(figure, f"{_world_title(study, world)}mean ± 1 standard error", repeats)
        name = "regret" + _world_name(study, world)
        yield name, _save(figure, folder / name)


def _beta(study: Study, folder: Path) -> Iterator[tuple[str, bytes]]:
    """The confidence parameters beta_t of the methods that have one."""
    widths = {
        name: settings
        for name, settings in study.experiment.methods.items()
        if settings.policy in ("ucb", "bucb")
    }
    networks = sorted({cell.network for cell in study.cells})
    figure, panels = _panels(len(networks))
    styles = line_styles(widths)
    for axes, network in zip(panels, networks, strict=False):
        mine = [cell for cell in study.cells if cell.network == network]
        last = max(study.column(cell, "t").shape[1] for cell in mine)
        rounds = np.arange(1, last + 1)
        n_arms = _n_arms(study, network)
        for name, settings in widths.items():
            width = width_of(settings, n_arms)
            values = [width(int(t)) ** 2 for t in rounds]
            colour, style = styles[name]
            axes.plot(rounds, values, linestyle=style, color=colour, label=name, linewidth=1.8)
        title = f"{titled(network)}, {n_arms:,} {'arms' if network == POINTS else 'edges'}"
        axes.set(title=title, xlabel="round t", ylabel=r"$\beta_t$", ylim=(0, None))
        tidy(axes)
    _legend(panels)
    yield "beta", _save(figure, folder / "beta")


def _lengthscale(study: Study, folder: Path) -> Iterator[tuple[str, bytes]]:
    """Regret over time for every lengthscale, and final regret against the lengthscale."""
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in study.shown:
        groups.setdefault((cell.truth, cell.traffic), []).append(cell)
    for (truth, traffic), cells in groups.items():
        last = "" if len(groups) == 1 else f"-{truth}-{traffic}"
        places = _places(cells)
        methods = [m for m in study.experiment.methods if m in {cell.method for cell in cells}]
        size = (3.3 * len(places), 2.5 * len(methods))
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        grid = figure.subplots(len(methods), len(places), squeeze=False, sharex=True)
        final, panels = _panels(len(places))
        repeats: set[int] = set()
        for column, place in enumerate(places):
            for row, method in enumerate(methods):
                mine = [cell for cell in _at(cells, place) if cell.method == method]
                repeats |= _plot_scales(study, mine, grid[row, column], panels[column])
                grid[row, column].set_title(f"{_title(place)}: {method}", fontsize=10)
            panels[column].set(title=_title(place), xlabel="lengthscale ℓ", yscale="log")
            panels[column].set_ylabel(f"final {_regret_label(place).removeprefix('cumulative ')}")
            tidy(panels[column])
        _legend(list(grid.flat))
        _legend(panels)
        figure.supxlabel("round t")
        figure.supylabel(" / ".join(dict.fromkeys(map(_regret_label, places))))
        _caption(figure, "mean", repeats)
        _caption(final, "regret after the last round, ± 1 standard error", repeats)
        yield f"lengthscale-curves{last}", _save(figure, folder / f"lengthscale-curves{last}")
        yield f"lengthscale-final{last}", _save(final, folder / f"lengthscale-final{last}")


def _plot_scales(study: Study, cells: list[Cell], axes: Axes, final: Axes) -> set[int]:
    """Plot one method on one route: its curves, and where they end."""
    ends, repeats = [], set()
    for cell in sorted(cells, key=lambda cell: cell.lengthscale):
        regret = _regret_of(study, cell)
        repeats.add(regret.repeats)
        rounds = np.arange(1, regret.mean.size + 1)
        shade = f"C{sorted({c.lengthscale for c in study.cells}).index(cell.lengthscale) % 10}"
        label = f"ℓ = {cell.lengthscale:g}"
        axes.plot(rounds, regret.mean, color=shade, label=label, linewidth=1.3)
        ends.append((cell.lengthscale, regret.mean[-1], regret.standard_error[-1]))
    axes.set_ylim(0, None)
    tidy(axes)
    if ends:
        colour, style = line_styles(study.experiment.methods)[cells[0].method]
        look: dict[str, Any] = {"color": colour, "linestyle": style, "marker": "o", "capsize": 3}
        x, y, error = np.array(ends).T
        final.errorbar(x, y, error, label=cells[0].method, **look)
    return repeats


def _exploration(study: Study, folder: Path) -> Iterator[tuple[str, bytes]]:
    """Where every method drove in the first world of each route: line width by visits."""
    for world, cells in _by_world(study).items():
        for place in _places(cells):
            network = study.store.read_network(place[0])
            visits = {
                cell.method: _visits(study, cell, network.n_edges) for cell in _at(cells, place)
            }
            most = max(float(counts.max()) for counts in visits.values())
            panels = [
                exploration_panel(
                    counts, f"{method}: {int((counts > 0).sum()):,} edges driven", most=most
                )
                for method, counts in visits.items()
            ]
            route = "random" if place[1] == RANDOM else place[1]
            name = f"exploration-{place[0]}-{route}{_world_name(study, world)}"
            draw_maps(network, panels, folder / f"{name}.pdf", columns=3)
            yield name, draw_maps(network, panels, folder / f"{name}.png", columns=3)


def _visits(study: Study, cell: Cell, n_edges: int) -> Vector:
    """Return how often edges were driven in the first world, on all random routes together."""
    first: dict[Cell, int] = {}
    for where, repeat in study.shown[cell]:
        first[where] = min(repeat, first.get(where, repeat))
    runs = [study.cells[where][repeat] for where, repeat in first.items()]
    visits: Vector = np.sum([run.visits(n_edges) for run in runs], axis=0)
    return visits


def _networks(study: Study, folder: Path) -> Iterator[tuple[str, bytes]]:
    """Every network with its routes: those that are best by the prior."""
    declared = {network_name(place.network) for place in study.experiment.places}
    for file in sorted((study.store.folder / "networks").glob("*.npz")):
        if file.stem not in declared:
            continue  # of an earlier version of the study
        network = study.store.read_network(file.stem)
        efficiency = study.experiment.world.efficiency
        routes = {
            f"route {name}": prior_route(network, start, goal, efficiency)
            for name, (start, goal) in study.store.read_routes(file.stem).items()
            if not RANDOM_ROUTE.fullmatch(name)
        }
        title = f"{titled(file.stem)}: {network.n_edges:,} edges, {network.n_turns:,} turns"
        panel = height_panel(network, routes, title)
        name = f"network-{file.stem}"
        draw_maps(network, [panel], folder / f"{name}.pdf", columns=1)
        yield name, draw_maps(network, [panel], folder / f"{name}.png", columns=1)


def prior_route(network: RoadNetwork, start: str, goal: str, efficiency: Efficiency) -> Rows:
    """Return the route of least expected rectified energy before anything is learned."""
    model = EnergyModel(network, efficiency=efficiency)
    cost = rectified_mean(model.prior_cost_wh, np.full(network.n_edges, model.noise_std_wh))
    ends = network.position(start), network.position(goal)
    return Dijkstra().select(Paths.on_turns(network.n_edges, network.turns, *ends), -cost)


def _time(study: Study, folder: Path) -> Iterator[tuple[str, bytes]]:
    """Cumulative regret against the CPU time spent."""
    styles = line_styles(study.experiment.methods)
    for world, cells in _by_world(study).items():
        places = _places(cells)
        figure, panels = _panels(len(places))
        repeats: set[int] = set()
        for axes, place in zip(panels, places, strict=False):
            for cell in _at(cells, place):
                regret = _regret_of(study, cell)
                repeats.add(regret.repeats)
                seconds = np.cumsum(study.column(cell, "ms").mean(axis=0)) / 1e3
                colour, style = styles[cell.method]
                look: dict[str, Any] = {"color": colour, "linestyle": style, "linewidth": 1.8}
                axes.plot(seconds, regret.mean, label=cell.method, **look)
            axes.set(title=_title(place), xlabel="CPU seconds", ylabel=_regret_label(place))
            axes.set(xscale="log", ylim=(0, None))
            tidy(axes)
        _legend(panels)
        _caption(figure, f"{_world_title(study, world)}mean, one point per round", repeats)
        name = "time" + _world_name(study, world)
        yield name, _save(figure, folder / name)


def _energy(study: Study, folder: Path) -> Iterator[tuple[str, bytes]]:
    """Mean raw energy per trip of the first method against every other, one dot per world."""
    first, *others = study.experiment.methods
    groups = list(dict.fromkeys((cell.network, cell.truth) for cell in study.cells))
    for other in others:
        figure, panels = _panels(len(groups))
        for axes, (network, truth) in zip(panels, groups, strict=False):
            for named, colour in ((False, COLOURS[0]), (True, COLOURS[1])):
                dots = np.array(list(_energies(study, network, truth, (first, other), named)))
                if dots.size:
                    label = "named routes" if named else "random routes"
                    axes.plot(*dots.T, ".", color=colour, label=label, markersize=5, alpha=0.7)
            line = axes.get_xlim()
            axes.plot(line, line, color="#5b6472", linewidth=0.8)
            for x, y, who in ((0.97, 0.05, other), (0.03, 0.93, first)):
                side = "right" if x > 0.5 else "left"  # noqa: PLR2004 - which half
                axes.text(
                    x, y, f"{who}\nuses less", transform=axes.transAxes, ha=side, fontsize=8,
                    va="bottom" if y < 0.5 else "top", color="#5b6472",  # noqa: PLR2004
                )  # fmt: skip
            axes.set(title=f"{titled(network)}, truth: {truth}")
            axes.set_aspect("equal", adjustable="datalim")
            axes.set(xlabel=f"{first} (Wh per trip)", ylabel=f"{other} (Wh per trip)")
            tidy(axes)
        _legend(panels)
        figure.suptitle(
            f"Raw energy per trip, regeneration included;\nbelow the line {other} uses less",
            fontsize=10,
        )
        yield f"energy-{other}", _save(figure, folder / f"energy-{other}")


def _energies(
    study: Study,
    network: str,
    truth: str,
    methods: tuple[str, str],
    named: bool,  # noqa: FBT001
) -> Iterator[tuple[float, float]]:
    for cell, repeats in study.cells.items():
        other = cell._replace(method=methods[1])
        if (cell.network, cell.truth, cell.method) != (network, truth, methods[0]):
            continue
        if cell.is_random == named or other not in study.cells:
            continue
        for repeat in sorted(set(repeats) & set(study.cells[other])):
            yield (
                float(study.steps(cell, repeat)["energy_wh"].mean()),
                float(study.steps(other, repeat)["energy_wh"].mean()),
            )


_KINDS: dict[str, Callable[[Study, Path], Iterator[tuple[str, bytes]]]] = {
    "regret": _regret,
    "beta": _beta,
    "lengthscale": _lengthscale,
    "exploration": _exploration,
    "networks": _networks,
    "time": _time,
    "energy": _energy,
}


def _n_arms(study: Study, network: str) -> int:
    for place in study.experiment.places:
        if place.points is not None and place.network == network:
            return place.points.arms
    return study.store.read_network(network).n_edges


def _regret_of(study: Study, cell: Cell) -> BayesianRegret:
    """Return mean and standard error; a single run has no error, and no band."""
    curves = study.column(cell, REGRET)
    if curves.shape[0] == 1:
        return BayesianRegret(curves[0], np.zeros(curves.shape[1]), 1)
    return bayesian_regret(curves)


def _by_world(study: Study) -> dict[tuple[str, float, str], list[Cell]]:
    """Return the shown cells by truth, lengthscale and traffic."""
    found: dict[tuple[str, float, str], list[Cell]] = {}
    for cell in study.shown:
        found.setdefault(cell.world, []).append(cell)
    return found


def _places(cells: Iterable[Cell]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((cell.network, cell.route) for cell in cells))


def _at(cells: Iterable[Cell], place: tuple[str, str]) -> list[Cell]:
    return [cell for cell in cells if (cell.network, cell.route) == place]


def _world_name(study: Study, world: tuple[str, float, str]) -> str:
    return "" if len(_by_world(study)) == 1 else "-" + "-".join(map(str, world))


def _world_title(study: Study, world: tuple[str, float, str]) -> str:
    texts = (f"truth: {world[0]}", f"lengthscale {world[1]:g}", _conditions(world[2]))
    varies = (len(set(values)) > 1 for values in zip(*_by_world(study), strict=True))
    return "".join(f"{text}; " for text, told in zip(texts, varies, strict=True) if told)


def _legend(panels: Sequence[Axes]) -> None:
    """Explain everything that any panel shows: in the first one, or beside them if it is much."""
    known: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            known.setdefault(label, handle)
    if len(known) > _MOST_INSIDE:
        figure = panels[0].get_figure()
        assert isinstance(figure, Figure)  # noqa: S101 - made by _panels
        figure.set_size_inches(figure.get_figwidth() + 2.0, max(figure.get_figheight(), 4.4))
        # the highest curve first
        ends = {
            str(line.get_label()): float(np.asarray(line.get_ydata())[-1])
            for axes in reversed(panels)
            for line in axes.get_lines()
        }
        order = sorted(known, key=lambda label: -ends.get(label, 0.0))
        handles = [known[label] for label in order]
        figure.legend(handles, order, frameon=False, fontsize=8, loc="outside right center")
    elif known:
        columns = 2 if len(known) > 3 else 1  # noqa: PLR2004 - few fit in one column
        panels[0].legend(
            known.values(), known, frameon=False, ncols=columns, fontsize=8, loc="best"
        )


def _title(place: tuple[str, str]) -> str:
    if place[0] == POINTS:
        return "Points"
    return f"{titled(place[0])} {'random routes' if place[1] == RANDOM else place[1]}"


def _regret_label(place: tuple[str, str]) -> str:
    return "cumulative regret" + ("" if place[0] == POINTS else " (Wh)")


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    columns = min(count, _COLUMNS) if count != 4 else 2  # noqa: PLR2004 - two by two
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(max(4.2 * columns, 6.0), 3.4 * rows + 0.3), layout="constrained")
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for spare in axes[count:]:
        spare.set_axis_off()
    return figure, axes


def _caption(figure: Figure, text: str, repeats: set[int]) -> None:
    over = "–".join(str(number) for number in sorted({min(repeats), max(repeats)}))
    figure.suptitle(f"{text}, {over} {'world' if over == '1' else 'worlds'}", fontsize=10)


def _save(figure: Figure, path: Path) -> bytes:
    picture = io.BytesIO()
    figure.savefig(picture, dpi=150, format="png")
    # names may hold dots, so no with_suffix
    path.with_name(f"{path.name}.png").write_bytes(picture.getvalue())
    figure.savefig(path.with_name(f"{path.name}.pdf"))
    return picture.getvalue()


def _conditions(name: str) -> str:
    """Say what a run met beside its truth."""
    return f"truth that {name}" if name in ("jumps", "wanders") else f"traffic: {name}"
