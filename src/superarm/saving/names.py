"""What saved files call classes and functions, and what these are called now.

A file holds names, ``module:name``, as they were when it was written. Whoever moves or renames a
class that can be saved adds a line to `MOVED`; whoever deletes one adds a line to `REMOVED`. An
old name is never given to something else.
"""

from collections.abc import Mapping

from superarm.errors import DataError

MOVED: Mapping[str, str] = {}
"""Old names and new ones: of one class (``module:name``), or of a module or package and with it of
all that it holds."""

_ENSEMBLE = "0.2: use superarm.beliefs.EnsembleGP and learn again from the rewards"
_ROADS = "0.2: use superarm.navigation.RoadModel, whose trips and networks are read as before"

REMOVED: Mapping[str, str] = {
    "superarm.beliefs.sums.induced:InducedGP": _ENSEMBLE,
    "superarm.beliefs.sums.induced:ProjectedEvidence": _ENSEMBLE,
    "superarm.beliefs.ensemble.on_device": _ENSEMBLE,
    "superarm.navigation.turns": _ROADS,
    "superarm.matching.ved": "0.2: convert the archives to CSV and read them with "
    "superarm.matching.read_logs",
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
