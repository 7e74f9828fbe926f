"""Networks and routes of an experiment: where they are found, and what to do if they are not."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from superarm.errors import DataError
from superarm.evaluation.comparison import stream
from superarm.experiments.config import STUDIES, StudyPlace
from superarm.experiments.plan import random_names
from superarm.roads.bandit.routes import crossing_routes
from superarm.roads.network.city import generate_city
from superarm.roads.network.formats import read_sumo
from superarm.roads.network.formats.fetch import PUBLISHED, cache_folder
from superarm.roads.network.network import RoadNetwork


def data_folders(named: Path | None) -> list[Path]:
    """Return where road networks are looked for: the folder named, or the usual ones."""
    if named is not None:
        return [named]
    if given := os.environ.get("SUPERARM_DATA"):
        return [Path(given)]
    return [Path("networks"), cache_folder()]


def open_place(place: StudyPlace, beside: Path, folders: list[Path]) -> RoadNetwork:
    """Return the network of a place, its largest component.

    Args:
        place: what was declared.
        beside: the folder of the experiment's file.
        folders: where named networks are looked for.
    """
    if place.network == "city":
        edges, which = place.generated
        return generate_city(which, edges).largest_component()
    if place.network in PUBLISHED:
        return _read(_find(place.network, folders)).largest_component()
    path = beside / place.network
    if not path.is_file():
        msg = (
            f"places.network = {place.network!r}: there is no file {path}; allowed are 'city', "
            f"{', '.join(map(repr, PUBLISHED))} or a network file"
        )
        raise DataError(msg)
    return _read(path).largest_component()


def _read(path: Path) -> RoadNetwork:
    return RoadNetwork.load(path) if path.suffix == ".npz" else read_sumo(path)


def network_file(name: str, folders: list[Path]) -> Path:
    """Return the file of a network: one of the published ones by name, or a path."""
    return _find(name, folders) if name in PUBLISHED else Path(name)


def _find(name: str, folders: list[Path]) -> Path:
    wanted = [f"{name}.net.xml.gz", f"{name}.net.xml", f"{name}.npz", PUBLISHED[name].file]
    for folder in folders:
        for file in wanted:
            if (folder / file).is_file():
                return folder / file
    looked = ", ".join(str(folder) for folder in folders)
    msg = (
        f"the network {name} is missing: no {wanted[0]} in {looked}. Name the folder that has it "
        f"with --data or SUPERARM_DATA, or fetch the published one: superarm network fetch {name}"
    )
    raise DataError(msg)


def routes_of(
    place: StudyPlace, network: RoadNetwork, seed: int, folders: list[Path]
) -> dict[str, tuple[str, str]]:
    """Return start and goal of every route of a place, by name."""
    if isinstance(place.routes, dict):
        routes = dict(place.routes)
    elif place.network == "city":
        routes = _named(place, crossing_routes(network))
    else:
        routes = _named(place, _known_routes(place, folders)) if place.routes else {}
    for name, ends in routes.items():
        for edge in ends:
            try:
                network.position(edge)
            except ValueError as error:
                msg = f"route {name} of {place.network}: {error}"
                raise DataError(msg) from error
    for number, name in enumerate(random_names(place.random_routes)):
        routes[name] = _random_route(network, stream(seed, number, f"route {place.network}"))
    return routes


def _named(place: StudyPlace, known: Mapping[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    unknown = [name for name in place.routes if name not in known]
    if unknown:
        msg = (
            f"places.routes: {place.network} has no route {unknown[0]!r}; allowed are "
            f"{', '.join(known)}, or a table of name = [start edge, goal edge]"
        )
        raise DataError(msg)
    return {name: known[name] for name in place.routes}


def _known_routes(place: StudyPlace, folders: list[Path]) -> dict[str, tuple[str, str]]:
    for folder in [*folders, STUDIES]:  # the user's own routes before the paper's
        file = folder / "routes.toml"
        if file.is_file() and (found := _routes_in(file, place.network)):
            return found
    looked = ", ".join(str(folder) for folder in folders)
    msg = (
        f"no routes of {place.network} are known, nor is there a routes.toml in {looked}; give "
        "start and goal edges in the experiment's file: routes = { A = [start, goal] }"
    )
    raise DataError(msg)


def _routes_in(file: Path, network: str) -> dict[str, tuple[str, str]]:
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8")).get(network, {})
        return {
            name: (str(route["start"]), str(route["end"]))
            for name, route in content.get("routes", {}).items()
        }
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, AttributeError, TypeError) as error:
        msg = f"{file} is no table of routes: {error}"
        raise DataError(msg) from error
    except KeyError as error:
        msg = f"{file}: a route of {network} lacks {error}; every route has a start and an end"
        raise DataError(msg) from error


def _random_route(network: RoadNetwork, rng: np.random.Generator) -> tuple[str, str]:
    """Return two random edges at least a third of the network's width apart."""
    middle = (
        network.junction_xy_m[network.from_junction] + network.junction_xy_m[network.to_junction]
    ) / 2
    far = np.ptp(middle, axis=0).max() / 3
    while True:
        start, goal = rng.integers(network.n_edges, size=2)
        if np.hypot(*(middle[start] - middle[goal])) >= far:
            return str(network.edge_ids[start]), str(network.edge_ids[goal])
