"""What saved files call classes and functions, and what these are called now.

A file holds names, ``module:name``, as they were when it was written. Whoever moves or renames a
class that can be saved adds a line to `MOVED`; whoever deletes one adds a line to `REMOVED`. An
old name is never given to something else.
"""

from collections.abc import Mapping

from superarm.errors import DataError

MOVED: Mapping[str, str] = {
    "superarm.matching.gpx": "superarm.roads.imports.gpx",
    "superarm.matching.hmm": "superarm.roads.matching.hmm",
    "superarm.matching.logs": "superarm.roads.imports.logs",
    "superarm.matching.matcher": "superarm.roads.matching.matcher",
    "superarm.matching.moving": "superarm.roads.matching.map_updates",
    "superarm.matching.points": "superarm.roads.matching.points",
    "superarm.matching.roads": "superarm.roads.matching.roads",
    "superarm.matching.trees": "superarm.roads.matching.trees",
    "superarm.matching.trial": "superarm.roads.matching.trial",
    "superarm.matching.trips": "superarm.roads.imports.importer",
    "superarm.navigation.access": "superarm.roads.network.access",
    "superarm.navigation.charging": "superarm.roads.charging",
    "superarm.navigation.charging.curves": "superarm.roads.battery",
    "superarm.navigation.city": "superarm.roads.network.city",
    "superarm.navigation.corridor": "superarm.roads.network.corridor",
    "superarm.navigation.energy": "superarm.roads.physics.energy",
    "superarm.navigation.formats": "superarm.roads.network.formats",
    "superarm.navigation.geography": "superarm.roads.network.geography",
    "superarm.navigation.learning": "superarm.roads.models.costs",
    "superarm.navigation.maps": "superarm.roads.maps",
    "superarm.navigation.mechanical": "superarm.roads.physics.motion",
    "superarm.navigation.methods": "superarm.roads.bandit.agents",
    "superarm.navigation.model": "superarm.roads.models.paper",
    "superarm.navigation.names": "superarm.roads.network.names",
    "superarm.navigation.network": "superarm.roads.network.network",
    "superarm.navigation.permits": "superarm.roads.routing.vehicle_access",
    "superarm.navigation.problem": "superarm.roads.bandit.problem",
    "superarm.navigation.roads": "superarm.roads.models.priors",
    "superarm.navigation.routes": "superarm.roads.bandit.routes",
    "superarm.navigation.shores": "superarm.roads.network.shores",
    "superarm.navigation.statistics": "superarm.roads.network.statistics",
    "superarm.navigation.times": "superarm.roads.models.times",
    "superarm.navigation.town": "superarm.roads.town",
    "superarm.navigation.traffic": "superarm.roads.bandit.traffic",
    "superarm.navigation.vehicle": "superarm.roads.vehicle",
    "superarm.navigation.water": "superarm.roads.network.water",
    "superarm.service.model.draws": "superarm.roads.models.draws",
    "superarm.service.model.fleet": "superarm.roads.models.fleet",
    "superarm.service.model.kept": "superarm.roads.models.kept",
    "superarm.service.model.posterior": "superarm.roads.models.posterior",
    "superarm.service.model.trip": "superarm.roads.models.likelihood",
    "superarm.service.model.vehicle": "superarm.service.vehicles",
    "superarm.service.routes.areas": "superarm.roads.routing.areas",
    "superarm.service.routes.battery:Battery": "superarm.roads.battery:Battery",
    "superarm.service.routes.battery": "superarm.roads.routing.arrival",
    "superarm.service.routes.intervals": "superarm.roads.models.intervals",
    "superarm.service.routes.legs": "superarm.roads.charging.legs",
    "superarm.service.routes.many": "superarm.roads.routing.trees",
    "superarm.service.routes.matrix": "superarm.roads.routing.matrix",
    "superarm.service.routes.plans": "superarm.roads.charging.plans",
    "superarm.service.routes.reach": "superarm.roads.routing.range",
    "superarm.service.routes.router:RouteQuery": "superarm.roads.routing.query:RouteQuery",
    "superarm.service.routes.router": "superarm.roads.routing.router",
    "superarm.service.routes.search": "superarm.roads.routing.search",
    "superarm.service.routes.thought": "superarm.roads.charging.monte_carlo",
}
"""Old names and new ones: of one class (``module:name``), or of a module or package and with it of
all that it holds."""

_ENSEMBLE = "0.2: use superarm.beliefs.EnsembleGP and learn again from the rewards"
_ROADS = "0.2: use superarm.roads.models.RoadModel, whose trips and networks are read as before"

REMOVED: Mapping[str, str] = {
    "superarm.beliefs.sums.induced:InducedGP": _ENSEMBLE,
    "superarm.beliefs.sums.induced:ProjectedEvidence": _ENSEMBLE,
    "superarm.beliefs.ensemble.on_device": _ENSEMBLE,
    "superarm.navigation.turns": _ROADS,
    "superarm.matching.ved": "0.2: convert the archives to CSV and read them with "
    "superarm.roads.imports.read_logs",
}
"""Names, likewise of classes or modules, and since when they are gone and what to do instead."""


def current_name(name: str, source: str) -> str:
    """Return what a stored class or function is called now.

    Args:
        name: in the file, ``module:name``.
        source: the file, for the error.

    Raises:
        DataError: if it was removed.
    """
    for part in _from_narrow_to_wide(name):
        if part in REMOVED:
            msg = f"{source} uses {name}, which was removed in {REMOVED[part]}"
            raise DataError(msg)
        if part in MOVED:
            return MOVED[part] + name.removeprefix(part)
    return name


def _from_narrow_to_wide(name: str) -> list[str]:
    """Return a name, its module, and all packages that this lies in."""
    module = name.partition(":")[0].split(".")
    return [name, *(".".join(module[:size]) for size in range(len(module), 0, -1))]
