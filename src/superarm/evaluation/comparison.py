"""Compare agents in the same worlds: regret over repeats, and time per round."""

import hashlib
import html
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from superarm.arms import Step
from superarm.arrays import Matrix, Vector
from superarm.evaluation.regret import BayesianRegret, bayesian_regret
from superarm.evaluation.runner import World, run
from superarm.protocols import FeasibleSet, Oracle, Player

S = TypeVar("S", bound=FeasibleSet)

AgentMaker: TypeAlias = Callable[[Any], Player[Any, Any]]
"""Makes an agent for a world. Agents and the oracle of `compare` are not typed by it: checkers
look for one type of all agents in a dictionary, and take the widest sets an oracle serves for the
world's. `run` is typed by all of them."""


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """What one agent did over all repeats.

    Attributes:
        curves: cumulative regret, shape (repeats, T).
        milliseconds: median time the agent took per round (deciding and learning).
    """

    curves: Matrix
    milliseconds: float

    @property
    def regret(self) -> BayesianRegret:
        """Mean and standard error per round."""
        return bayesian_regret(self.curves)

    @property
    def final(self) -> Vector:
        """The regret after the last round, one per repeat."""
        return self.curves[:, -1]

    def __repr__(self) -> str:
        """Return one line."""
        repeats, horizon = self.curves.shape
        return (
            f"Result(regret {_spread(self.final)} after {horizon} rounds, {repeats} worlds, "
            f"{self.milliseconds:.3g} ms per round)"
        )


class Results(Mapping[str, Result]):
    """The results of some agents by name; a table where notebooks show it."""

    def __init__(self, results: Mapping[str, Result]) -> None:
        """Keep them, in their order."""
        self._results = dict(results)

    def __getitem__(self, name: str) -> Result:
        """Return the result of one agent."""
        return self._results[name]

    def __iter__(self) -> Iterator[str]:
        """Go through the names."""
        return iter(self._results)

    def __len__(self) -> int:
        """Return how many agents there are."""
        return len(self._results)

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Return name, final regret, worlds and milliseconds of every agent, the best first."""
        order = sorted(self._results.items(), key=lambda item: float(item[1].final.mean()))
        return [
            (name, _spread(result.final), str(result.final.size), f"{result.milliseconds:.3g}")
            for name, result in order
        ]

    def __repr__(self) -> str:
        """Return one line per agent."""
        return "\n".join(
            f"{name}: regret {regret}, {worlds} worlds, {ms} ms per round"
            for name, regret, worlds, ms in self.rows()
        )

    def _repr_html_(self) -> str:
        heads = ("agent", "final regret", "worlds", "ms per round")
        head = "".join(f"<th>{text}</th>" for text in heads)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(text)}</td>" for text in row) + "</tr>"
            for row in self.rows()
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def compare(  # noqa: PLR0913 - a study has these parts
    make_world: Callable[[np.random.Generator], World[S]],
    agents: Mapping[str, AgentMaker],
    oracle: Oracle[Any],
    *,
    horizon: int,
    repeats: int,
    seed: int = 0,
    on_run: Callable[[str, int], None] | None = None,
    on_step: Callable[[str, int, Step[S], Any], None] | None = None,
) -> Results:
    """Play every agent in the same worlds and return the results by name.

    The world of a repeat depends on the seed and the repeat alone; an agent's own randomness also
    on its name. So adding an agent or a repeat changes no other run.

    Args:
        make_world: draws a world.
        agents: by name, how to make the agent for a world (which must not look at its truth).
        oracle: finds the optimum that regret is measured against.
        horizon: rounds T per run.
        repeats: how many worlds to draw.
        seed: of all randomness.
        on_run: called with name and repeat after every run.
        on_step: called with name, repeat, step and agent after every round; not timed.
    """
    for name, make in agents.items():
        given: object = make
        if not callable(given):
            msg = f"agents[{name!r}] must make an agent for a world; pass lambda world: agent"
            raise TypeError(msg)
    for what, number in (("horizon", horizon), ("repeats", repeats)):
        if number < 1:
            msg = f"{what} must be at least 1, got {number}"
            raise ValueError(msg)
    curves: dict[str, list[Vector]] = {name: [] for name in agents}
    times: dict[str, list[float]] = {name: [] for name in agents}
    with threadpool_limits(1):  # the products are small: more threads only get in each other's way
        for repeat in range(repeats):
            world = make_world(stream(seed, repeat, "truth"))
            for name, make_agent in agents.items():
                regrets: list[float] = []
                for scored in run(
                    world,
                    make_agent(world),
                    oracle,
                    horizon,
                    outside=stream(seed, repeat, "world"),
                    mind=stream(seed, repeat, f"mind {name}"),
                ):
                    regrets.append(scored.regret)
                    times[name].append(scored.seconds)
                    if on_step is not None:
                        on_step(name, repeat, scored.step, scored.agent)
                curves[name].append(np.cumsum(regrets))
                if on_run is not None:
                    on_run(name, repeat)
    return Results(
        {
            name: Result(np.array(curves[name]), 1e3 * float(np.median(times[name])))
            for name in agents
        }
    )


def stream(seed: int, repeat: int, purpose: str) -> np.random.Generator:
    """Return the random generator of one purpose in one repeat."""
    digest = int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:8], "big")
    return np.random.default_rng([seed, repeat, digest])


def _spread(values: Vector) -> str:
    mean = f"{values.mean():,.4g}"
    if values.size < 2:  # noqa: PLR2004 - a spread needs two
        return mean
    return f"{mean} ± {values.std(ddof=1) / np.sqrt(values.size):,.2g}"
