"""What is asked, by source: a state that takes long to make, and all that is asked of it."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from characterisation import andorra, bandits, beliefs, city, networks, studies, towns, traces
from characterisation.comparing import Tolerance
from characterisation.forms import Files
from characterisation.questions import GROUPS, ROUNDED

FITTED = Tolerance(share=1e-5)
"""Of what a search ends with, be it for the likeliest variances or for the solution of a large
system: it stops within its own tolerance, and sums in another order lead it elsewhere within that.
Between BLAS kernels such numbers differ by up to 5e-7 of their size."""


class Source(NamedTuple):
    """Answers that are asked for together.

    Attributes:
        answers: asks; skips where shared data are missing.
        files: in which the answers are recorded.
        tolerance: of their numbers.
        slow: whether it takes longer than others.
    """

    answers: Callable[[], Files]
    files: tuple[str, ...]
    tolerance: Tolerance = Tolerance()
    slow: bool = False


def _files_of(place: str, *more: str) -> tuple[str, ...]:
    moments = ("before", "coordinates", "after")
    groups = (f"{place}-{moment}-{group}" for moment in moments for group in GROUPS)
    return (*groups, *(f"{place}-{name}" for name in more))


SOURCES: Mapping[str, Source] = {
    "city": Source(
        city.answers,
        _files_of(
            "city",
            "maps",
            "before-plans",
            "coordinates-plans",
            "coordinates-maps",
            "after-plans",
            "traces",
        ),
        ROUNDED,
    ),
    "andorra": Source(
        andorra.answers, _files_of("andorra", "maps", "before-plans", "network"), ROUNDED
    ),
    "networks": Source(networks.answers, ("networks", "energies")),
    "monaco": Source(networks.monaco, ("monaco",)),
    "beliefs": Source(beliefs.answers, ("energies-believed", "times-believed", "explored")),
    "large": Source(beliefs.large, ("energies-believed-large",), FITTED),
    "bandits": Source(bandits.answers, ("paper-prior", "rounds", "experiment")),
    "towns": Source(towns.answers, ("towns", "road-models", "planners"), FITTED),
    "town-coordinates": Source(towns.by_coordinates, ("town-coordinates",)),
    "traces": Source(traces.answers, ("matched", "imported", "map-changes")),
    "bus": Source(studies.bus, ("study-bus",)),
    "twizy": Source(studies.twizy, ("study-twizy",), slow=True),
}
