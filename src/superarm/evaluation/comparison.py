"""Compare agents in the same worlds: regret over repeats, and time per round."""

import hashlib
import html
import importlib
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
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

    def columns(self) -> dict[str, list[Any]]:
        """Return one row per agent, world and round, as columns: agent, world, round, regret."""
        found: dict[str, list[Any]] = {"agent": [], "world": [], "round": [], "regret": []}
        for name, result in self._results.items():
            repeats, horizon = result.curves.shape
            found["agent"] += [name] * result.curves.size
            found["world"] += np.repeat(np.arange(repeats), horizon).tolist()
            found["round"] += np.tile(np.arange(1, horizon + 1), repeats).tolist()
            found["regret"] += result.curves.ravel().tolist()
        return found

    def to_frame(self, backend: str = "pandas") -> Any:  # noqa: ANN401 - a native frame
        """Return `columns` as a frame; cumulative regret, one row per agent, world and round.

        Args:
            backend: ``"pandas"`` or ``"polars"``; it must be installed.
        """
        if backend not in ("pandas", "polars"):
            msg = f"backend must be 'pandas' or 'polars', got {backend!r}; or use columns()"
            raise ValueError(msg)
        try:
            library = importlib.import_module(backend)
        except ImportError as error:
            msg = f"{backend} is not installed; install it, or use columns()"
            raise ImportError(msg) from error
        return library.DataFrame(self.columns())

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
    jobs: int = 1,
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
        jobs: how many worlds are played at the same time, in processes of their own; the results
            are the same, but for times. Needs a system that can fork (not Windows); 0 is one per
            core.
        on_run: called with name and repeat after every run.
        on_step: called with name, repeat, step and agent after every round; not timed, and with
            one job only.
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
    if jobs < 0 or (jobs != 1 and on_step is not None):
        msg = f"jobs must be 0 or more, and 1 where on_step is given, got {jobs}"
        raise ValueError(msg)
    study = _Study(make_world, agents, oracle, horizon, seed)
    curves: dict[str, list[Vector]] = {name: [] for name in agents}
    times: dict[str, list[float]] = {name: [] for name in agents}
    played = (
        (study.played(repeat, on_run, on_step) for repeat in range(repeats))
        if jobs == 1
        else _in_parallel(study, repeats, jobs or os.cpu_count() or 1)
    )
    for repeat, found in enumerate(played):
        for name, (curve, seconds) in found.items():
            curves[name].append(curve)
            times[name] += seconds
            if jobs != 1 and on_run is not None:
                on_run(name, repeat)
    return Results(
        {
            name: Result(np.array(curves[name]), 1e3 * float(np.median(times[name])))
            for name in agents
        }
    )


@dataclass(frozen=True, eq=False)
class _Study:
    """What every repeat of a comparison needs."""

    make_world: Callable[[np.random.Generator], World[Any]]
    agents: Mapping[str, AgentMaker]
    oracle: Oracle[Any]
    horizon: int
    seed: int

    def played(
        self,
        repeat: int,
        on_run: Callable[[str, int], None] | None = None,
        on_step: Callable[[str, int, Step[Any], Any], None] | None = None,
    ) -> dict[str, tuple[Vector, list[float]]]:
        """Return cumulative regret and seconds per round of every agent in one world."""
        found = {}
        with threadpool_limits(1):  # products are small: more threads get in each other's way
            world = self.make_world(stream(self.seed, repeat, "truth"))
            for name, make_agent in self.agents.items():
                regrets: list[float] = []
                seconds: list[float] = []
                for scored in run(
                    world,
                    make_agent(world),
                    self.oracle,
                    self.horizon,
                    outside=stream(self.seed, repeat, "world"),
                    mind=stream(self.seed, repeat, f"mind {name}"),
                ):
                    regrets.append(scored.regret)
                    seconds.append(scored.seconds)
                    if on_step is not None:
                        on_step(name, repeat, scored.step, scored.agent)
                found[name] = np.cumsum(regrets), seconds
                if on_run is not None:
                    on_run(name, repeat)
        return found


_forked: dict[int, _Study] = {}  # what forked processes find; functions cannot be sent to them


def _play_forked(which: int, repeat: int) -> dict[str, tuple[Vector, list[float]]]:
    return _forked[which].played(repeat)


def _in_parallel(
    study: _Study, repeats: int, jobs: int
) -> Iterator[dict[str, tuple[Vector, list[float]]]]:
    """Yield what every repeat brought, in order, played in forked processes."""
    if "fork" not in multiprocessing.get_all_start_methods():
        msg = "jobs needs a system that can fork; leave it at 1 here"
        raise ValueError(msg)
    _forked[id(study)] = study
    try:
        context = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(min(jobs, repeats), mp_context=context) as pool:
            yield from pool.map(partial(_play_forked, id(study)), range(repeats))
    finally:
        del _forked[id(study)]


def stream(seed: int, repeat: int, purpose: str) -> np.random.Generator:
    """Return the random generator of one purpose in one repeat."""
    digest = int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:8], "big")
    return np.random.default_rng([seed, repeat, digest])


def _spread(values: Vector) -> str:
    mean = f"{values.mean():,.4g}"
    if values.size < 2:  # noqa: PLR2004 - a spread needs two
        return mean
    return f"{mean} ± {values.std(ddof=1) / np.sqrt(values.size):,.2g}"
