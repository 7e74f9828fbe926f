"""From stored runs to the paper's figures: PNG for pages, PDF for print."""

import io
import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from superarm.errors import DataError
from superarm.experiments.build import width_of
from superarm.experiments.study import Cell, Study
from superarm.figures import COLOURS, line_styles, plot_regret, tidy
from superarm.gaussian import rectified_mean
from superarm.navigation import RoadNetwork
from superarm.navigation.maps import draw_maps, exploration_panel, height_panel
from superarm.navigation.model import EnergyModel
from superarm.oracles import Dijkstra, Paths
from superarm.regret import BayesianRegret, bayesian_regret

Drawn = dict[str, bytes]
"""Pictures (PNG) by file name without ending."""

_COLUMNS = 3
_FEWEST = 2  # runs behind a mean with an error


def draw_figures(study: Study, folder: Path) -> Drawn:
    """Draw the figures an experiment declares, as PNG and PDF, from its stored runs alone."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn: Drawn = {}
    for name in study.experiment.figures:
        if name != "networks" and not study.cells:
            msg = f"{study.store.folder}: no run is finished yet; run the experiment first"
            raise DataError(msg)
        for label, picture in _KINDS[name](study, folder):
            drawn[label] = picture
    return drawn


def _regret(study: Study, folder: Path) -> Iterator[tuple[str, bytes]]:
    """Cumulative regret per route, one figure per kind of world."""
    worlds = _worlds(study)
    for world in worlds:
        cells = [cell for cell in study.cells if _world(cell) == world]
        places = [place for place in _places(cells) if not _is_random(place)]
        if not places:
            continue
        figure, panels = _panels(len(places))
        repeats: set[int] = set()
        for axes, place in zip(panels, places, strict=False):
            regrets = {cell.method: _regret_of(study, cell) for cell in _at(cells, place)}
            shown = {name: regret for name, regret in regrets.items() if regret is not None}
            repeats |= {regret.repeats for regret in shown.values()}
            plot_regret(axes, shown)
            axes.set(title=_title(place), xlabel="round t", ylabel="cumulative regret (Wh)")
        panels[0].legend(frameon=False, ncols=2, fontsize=8, loc="upper left")
        _caption(figure, f"{_world_title(study, world)}mean ± 1 standard error", repeats)
        name = "regret" if len(worlds) == 1 else f"regret-{'-'.join(map(str, world))}"
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
    rounds = np.arange(1, study.experiment.horizon + 1)
    for axes, network in zip(panels, networks, strict=False):
        n_arms = study.store.read_network(network).n_edges
        for name, settings in widths.items():
            width = width_of(settings, n_arms)
            values = [width(int(t)) ** 2 for t in rounds]
            colour, style = styles[name]
            axes.plot(rounds, values, style, color=colour, label=name, linewidth=1.8)
        title = f"{network.capitalize()}, {n_arms:,} edges"
        axes.set(title=title, xlabel="round t", ylabel=r"$\beta_t$", ylim=(0, None))
        tidy(axes)
    panels[0].legend(frameon=False, fontsize=8)
    yield "beta", _save(figure, folder / "beta")


def _lengthscale(study: Study, folder: Path) -> Iterator[tuple[str, bytes]]:
    """Regret over time for every lengthscale, and final regret against the lengthscale."""
    places = _places(study.cells)
    methods = list(study.experiment.methods)
    scales = sorted({cell.lengthscale for cell in study.cells})
    shades = [f"C{number}" for number in range(len(scales))]
    size = (3.3 * len(places), 2.5 * len(methods))
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(len(methods), len(places), squeeze=False, sharex=True)
    final, panels = _panels(len(places))
    styles = line_styles(methods)
    repeats: set[int] = set()
    for column, place in enumerate(places):
        for row, method in enumerate(methods):
            ends = []
            for scale, shade in zip(scales, shades, strict=True):
                regret = _find(study, place, method, scale)
                if regret is None:
                    continue
                repeats.add(regret.repeats)
                rounds = np.arange(1, regret.mean.size + 1)
                axes = grid[row, column]
                axes.plot(rounds, regret.mean, color=shade, label=f"ℓ = {scale:g}", linewidth=1.3)
                ends.append((scale, regret.mean[-1], regret.standard_error[-1]))
            grid[row, column].set(title=f"{_title(place)}: {method}", ylim=(0, None))
            tidy(grid[row, column])
            if ends:
                colour, style = styles[method]
                x, y, error = np.array(ends).T
                panels[column].errorbar(
                    x, y, error, color=colour, linestyle=style, marker="o", markersize=4,
                    capsize=3, label=method,
                )  # fmt: skip
        panels[column].set(
            title=_title(place), xlabel="lengthscale ℓ", ylabel="final regret (Wh)", yscale="log"
        )
        tidy(panels[column])
    grid[0, 0].legend(frameon=False, fontsize=7, ncols=2)
    panels[0].legend(frameon=False, fontsize=8, ncols=2)
    figure.supxlabel("round t")
    figure.supylabel("cumulative regret (Wh)")
    _caption(final, f"at t = {study.experiment.horizon}, ± 1 standard error", repeats)
    yield "lengthscale-curves", _save(figure, folder / "lengthscale-curves")
    yield "lengthscale-final", _save(final, folder / "lengthscale-final")


def _exploration(study: Study, folder: Path) -> Iterator[tuple[str, bytes]]:
    """Where every method drove in the first world of each route: line width by visits."""
    for place in _places(study.cells):
        if _is_random(place):
            continue
        network = study.store.read_network(place[0])
        visits = {
            cell.method: repeats[min(repeats)].visits(network.n_edges)
            for cell, repeats in study.cells.items()
            if (cell.network, cell.route) == place
        }
        most = max(float(counts.max()) for counts in visits.values())
        panels = [
            exploration_panel(
                counts, f"{method}: {int((counts > 0).sum()):,} edges driven", most=most
            )
            for method, counts in visits.items()
        ]
        name = f"exploration-{place[0]}-{place[1]}"
        draw_maps(network, panels, folder / f"{name}.pdf", columns=3)
        yield name, draw_maps(network, panels, folder / f"{name}.png", columns=3)


def _networks(study: Study, folder: Path) -> Iterator[tuple[str, bytes]]:
    """Every network with its routes: those that are best by the prior."""
    for file in sorted((study.store.folder / "networks").glob("*.npz")):
        network = study.store.read_network(file.stem)
        ends = {n: e for n, e in study.store.read_routes(file.stem).items() if n[0] != "R"}
        routes = {
            f"route {name}": prior_route(network, start, goal)
            for name, (start, goal) in ends.items()
        }
        title = f"{file.stem.capitalize()}: {network.n_edges:,} edges, {network.n_turns:,} turns"
        panel = height_panel(network, routes, title)
        name = f"network-{file.stem}"
        draw_maps(network, [panel], folder / f"{name}.pdf", columns=1)
        yield name, draw_maps(network, [panel], folder / f"{name}.png", columns=1)


def prior_route(
    network: RoadNetwork, start: str, goal: str
) -> "np.ndarray[tuple[int], np.dtype[np.intp]]":
    """Return the route of least expected rectified energy before anything is learned."""
    model = EnergyModel(network)
    cost = rectified_mean(model.prior_cost_wh, np.full(network.n_edges, model.noise_std_wh))
    ends = network.position(start), network.position(goal)
    return Dijkstra().select(Paths.on_turns(network.n_edges, network.turns, *ends), -cost)


def _time(study: Study, folder: Path) -> Iterator[tuple[str, bytes]]:
    """Cumulative regret against the CPU time spent."""
    places = [place for place in _places(study.cells) if not _is_random(place)]
    figure, panels = _panels(len(places))
    repeats: set[int] = set()
    styles = line_styles(study.experiment.methods)
    for axes, place in zip(panels, places, strict=False):
        for cell in _at(study.cells, place):
            regret = _regret_of(study, cell)
            if regret is None:
                continue
            repeats.add(regret.repeats)
            seconds = np.cumsum(study.column(cell, "ms").mean(axis=0)) / 1e3
            colour, style = styles[cell.method]
            axes.plot(seconds, regret.mean, style, color=colour, label=cell.method, linewidth=1.8)
        axes.set(title=_title(place), xlabel="CPU seconds", ylabel="cumulative regret (Wh)")
        axes.set(xscale="log", ylim=(0, None))
        tidy(axes)
    panels[0].legend(frameon=False, fontsize=8, loc="upper left")
    _caption(figure, f"mean over {study.experiment.horizon} rounds", repeats)
    yield "time", _save(figure, folder / "time")


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
            axes.set(title=f"{network.capitalize()}, truth: {truth}")
            axes.set(xlabel=f"{first} (Wh per trip)", ylabel=f"{other} (Wh per trip)")
            tidy(axes)
        panels[0].legend(frameon=False, fontsize=8, loc="upper left")
        figure.suptitle("Raw energy per trip, regeneration included; dots below the line: less")
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
        if _is_random((cell.network, cell.route)) == named or other not in study.cells:
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


def _regret_of(study: Study, cell: Cell) -> BayesianRegret | None:
    if len(study.cells[cell]) < _FEWEST:
        return None
    return bayesian_regret(study.column(cell, "cumulative_regret_wh"))


def _find(study: Study, place: tuple[str, str], method: str, scale: float) -> BayesianRegret | None:
    for cell in _at(study.cells, place):
        if cell.method == method and cell.lengthscale == scale:
            return _regret_of(study, cell)
    return None


def _places(cells: Iterable[Cell]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((cell.network, cell.route) for cell in cells))


def _at(cells: Iterable[Cell], place: tuple[str, str]) -> list[Cell]:
    return [cell for cell in cells if (cell.network, cell.route) == place]


def _is_random(place: tuple[str, str]) -> bool:
    return place[1][:1] == "R" and place[1][1:].isdigit()


def _world(cell: Cell) -> tuple[str, float, str]:
    return cell.truth, cell.lengthscale, cell.traffic


def _worlds(study: Study) -> list[tuple[str, float, str]]:
    return list(dict.fromkeys(_world(cell) for cell in study.cells))


def _world_title(study: Study, world: tuple[str, float, str]) -> str:
    settings = study.experiment.world
    parts = []
    if len(settings.truth) > 1:
        parts.append(f"truth: {world[0]}")
    if len(settings.lengthscale) > 1:
        parts.append(f"lengthscale {world[1]:g}")
    if len(settings.traffic) > 1:
        parts.append(f"traffic: {world[2]}")
    return "".join(f"{part}; " for part in parts)


def _title(place: tuple[str, str]) -> str:
    return f"{place[0].capitalize()} {place[1]}"


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
    over = (
        "–".join(str(number) for number in sorted({min(repeats), max(repeats)})) if repeats else 0
    )
    figure.suptitle(f"{text}, {over} worlds", fontsize=10)


def _save(figure: Figure, path: Path) -> bytes:
    picture = io.BytesIO()
    figure.savefig(picture, dpi=150, format="png")
    # names may hold dots, so no with_suffix
    path.with_name(f"{path.name}.png").write_bytes(picture.getvalue())
    figure.savefig(path.with_name(f"{path.name}.pdf"))
    return picture.getvalue()
