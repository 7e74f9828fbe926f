"""Items in a table, and an agent that chooses among them."""

import math
import os
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike

from superarm.agent import Agent, condition
from superarm.arms import Arms, Round
from superarm.arrays import Rows, Vector, as_count, frozen
from superarm.beliefs import FiniteGP
from superarm.errors import DataError
from superarm.evaluation import Calibration, calibration_of
from superarm.fitting import Fit, fit
from superarm.kernels import Matern52
from superarm.oracles import Subsets, TopK
from superarm.policies import JointThompson
from superarm.saving import load_value, save_value
from superarm.tables.encoding import Encoder, require_columns, require_complete
from superarm.wrapping import with_belief

_INTERVAL = 1.645  # of a normal: 90 per cent lie within
_SHOWN = 5


@dataclass(frozen=True, eq=False)
class Catalogue:
    """Items with features, what is known of their rewards, and how to choose among them.

    A value: `learn`, `fitted` and `after` return another. Frames go in as they are (pandas, polars,
    whatever narwhals reads) and come out of the same kind.

    Attributes:
        id_column: the column of ids.
        ids: of all items, in the order of the arms.
        encoder: how columns become features.
        arms: the items as arms: ids are positions, contexts features.
        seen: how often each has earned a reward, shape (n,).
        agent: who decides; anything that plays, `superarm.adapting.Watched` and the like included.
        rounds: how many decisions have been learned from.
    """

    id_column: str
    ids: tuple[Hashable, ...]
    encoder: Encoder
    arms: Arms
    seen: Vector
    agent: Any
    rounds: int = 0

    @classmethod
    def of(
        cls,
        frame: Any,  # noqa: ANN401 - a native frame
        *,
        ids: str,
        features: Sequence[str] | None = None,
    ) -> "Catalogue":
        """Make a catalogue of a table, with an agent that knows nothing yet.

        The agent plays Thompson sampling on a Matérn kernel with one lengthscale per feature, in
        usual units; `fitted` learns them from rewards.

        Args:
            frame: one row per item.
            ids: the column of ids: texts, numbers, anything that can be told apart; all different.
            features: columns that may tell something of the rewards: numbers are standardised,
                texts, categories and truth values get a feature per level. All others by default.
        """
        table = _opened(frame)
        require_columns(table, [ids, *(features or ())])
        require_complete(table, [ids])
        names = tuple(table[ids].to_list())
        _require_distinct(names, ids)
        chosen = [name for name in table.columns if name != ids] if features is None else features
        encoder = Encoder.of(table, list(chosen))
        arms = Arms(np.arange(len(names)), encoder.encoded(table))
        lengthscale = np.full(arms.n_features, 2 * math.sqrt(arms.n_features))
        belief = FiniteGP.from_kernel(arms, Matern52(lengthscale), noise_variance=1.0)
        seen = frozen(np.zeros(len(names)))
        return cls(ids, names, encoder, arms, seen, Agent(belief, JointThompson(), TopK()))

    def with_agent(self, agent: Any) -> "Catalogue":  # noqa: ANN401 - anything that plays
        """Return the catalogue with another agent, whose belief is about its arms."""
        try:
            agent.belief.posterior(self.arms)
        except ValueError as error:
            msg = f"this agent does not know the items of this catalogue: {error}"
            raise ValueError(msg) from error
        return replace(self, agent=agent)

    def learn(
        self,
        log: Any,  # noqa: ANN401 - a native frame
        *,
        reward: str,
        noise_variance: str | None = None,
        trials: str | None = None,
    ) -> "Catalogue":
        """Return the catalogue that knows a log of rewards; items may repeat.

        Args:
            log: one row per reward, with the ids of items.
            reward: the column of rewards.
            noise_variance: the column of their noise variances, where these are known: a rate of
                many visitors is more certain than one of few.
            trials: the column of what they are shares of, for agents that believe counts.
        """
        rows, rewards, known = self._read(log, reward, noise_variance=noise_variance, trials=trials)
        if rows.size == 0:
            return self
        belief = condition(self.agent.belief, self.arms.take(rows), rewards, **known)
        agent = with_belief(self.agent, belief)
        return replace(self, agent=agent, seen=self._counted(rows))

    def _read(
        self,
        log: Any,  # noqa: ANN401 - a native frame
        reward: str,
        **options: str | None,
    ) -> tuple[Rows, Vector, dict[str, Vector]]:
        """Return the items and rewards of a log, and what is known of each."""
        table = _opened(log)
        given = {name: column for name, column in options.items() if column is not None}
        columns = [self.id_column, reward, *given.values()]
        require_columns(table, columns)
        if len(table) == 0:
            return np.empty(0, dtype=np.intp), np.empty(0), {}
        require_complete(table, columns)
        known = {name: _numbers(table, column) for name, column in given.items()}
        return self.rows(table[self.id_column].to_list()), _numbers(table, reward), known

    def fitted(self, **options: Any) -> "tuple[Catalogue, Fit[Any]]":  # noqa: ANN401
        """Return the catalogue under the prior that fits what it knows, and the fit itself.

        Args:
            options: of `superarm.fitting.fit`.
        """
        found = fit(self.agent.belief, **options)
        return replace(self, agent=with_belief(self.agent, found.belief)), found

    def checked(
        self,
        log: Any,  # noqa: ANN401 - a native frame
        *,
        reward: str,
        noise_variance: str | None = None,
    ) -> Calibration:
        """Compare a log that was not learned with what is predicted of it.

        Args:
            log: one row per reward, with the ids of items.
            reward: the column of rewards.
            noise_variance: the column of their noise variances, where these are known.
        """
        rows, rewards, known = self._read(log, reward, noise_variance=noise_variance)
        return calibration_of(self.agent.belief, self.arms.take(rows), rewards, **known)

    def decide(
        self,
        offered: Any,  # noqa: ANN401 - a native frame, or ids
        size: int,
        rng: np.random.Generator,
        *,
        day: int | None = None,
    ) -> "Slate":
        """Choose some of the items on offer.

        Args:
            offered: a frame with the ids of what is on offer today, or just these ids.
            size: how many to choose.
            rng: the agent's randomness.
            day: the number of the decision, from 1. Where rewards come late, decisions are ahead of
                what was learned: say which it is. The one after the last learned by default.
        """
        number = self.rounds + 1 if day is None else as_count("day", day)
        rows = self._offered(offered)
        size = as_count("size", size)
        if not 0 < size <= rows.size:
            msg = f"{size} of {rows.size} items on offer cannot be chosen"
            raise ValueError(msg)
        available = Round(number, self.arms.take(rows), Subsets(rows.size, size))
        indices = self.agent.indices(available, rng)
        chosen = self.agent.select(available, indices)
        order = np.argsort(-indices[chosen], kind="stable")
        picked = rows[chosen[order]]
        return Slate(
            ids=tuple(self.ids[row] for row in picked),
            rows=frozen(picked),
            indices=frozen(indices[chosen[order]]),
            round=number,
        )

    def after(
        self,
        slate: "Slate",
        rewards: ArrayLike,
        *,
        noise_variance: ArrayLike | None = None,
        trials: ArrayLike | None = None,
    ) -> "Catalogue":
        """Return the catalogue that knows what a slate has earned, one reward per item of it.

        Rewards may come late and in any order.
        """
        size = slate.rows.size
        available = Round(slate.round, self.arms.take(slate.rows), Subsets(size, size))
        given = {"noise_variance": noise_variance, "trials": trials}
        known = {name: value for name, value in given.items() if value is not None}
        agent = self.agent.learn(available, np.arange(size), rewards, **known)
        seen = self._counted(slate.rows)
        return replace(self, agent=agent, seen=seen, rounds=max(self.rounds, slate.round))

    def _counted(self, rows: Rows) -> Vector:
        return frozen(self.seen + np.bincount(rows, minlength=len(self.ids)))

    def explain(
        self,
        items: Any = None,  # noqa: ANN401 - a native frame, or ids
        rng: np.random.Generator | None = None,
    ) -> Any:  # noqa: ANN401 - a native frame, or columns
        """Return what is known of items: mean, 90 % interval, how often seen, index.

        Args:
            items: a frame with their ids, which comes back with columns added; or ids, or nothing
                for all, which return columns by name.
            rng: the agent's randomness; with it the indices it would choose by are added.
        """
        is_frame = items is not None and hasattr(items, "columns")
        rows = np.arange(len(self.ids)) if items is None else self._offered(items)
        posterior = self.agent.belief.posterior(self.arms.take(rows))
        columns: dict[str, Any] = {
            "mean": posterior.mean,
            "low": posterior.mean - _INTERVAL * posterior.std,
            "high": posterior.mean + _INTERVAL * posterior.std,
            "seen": self.seen[rows].astype(np.int64),
        }
        if rng is not None and rows.size:
            subsets = Subsets(rows.size, rows.size)
            available = Round(self.rounds + 1, self.arms.take(rows), subsets)
            columns["index"] = self.agent.indices(available, rng)
        if not is_frame:
            return {self.id_column: [self.ids[row] for row in rows], **columns}
        table = _opened(items)
        added = [
            nw.new_series(name, values, backend=table.implementation)
            for name, values in columns.items()
        ]
        return table.with_columns(*added).to_native()

    def rows(self, ids: Iterable[Hashable]) -> Rows:
        """Return the positions of items, or say which are not known."""
        given = list(ids)
        unknown = [name for name in given if name not in self._places]
        if unknown:
            some = ", ".join(repr(name) for name in unknown[:_SHOWN])
            msg = f"{len(unknown)} ids are not in the catalogue: {some}"
            raise ValueError(msg)
        return np.array([self._places[name] for name in given], dtype=np.intp)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the catalogue and its agent to a file; no generator is needed."""
        save_value(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Catalogue":
        """Read a catalogue from a file."""
        value = load_value(path)
        if not isinstance(value, Catalogue):
            msg = f"{path} holds a {type(value).__name__}, not a catalogue"
            raise DataError(msg)
        return value

    def _offered(self, offered: Any) -> Rows:  # noqa: ANN401 - a native frame, or ids
        if hasattr(offered, "columns"):
            table = _opened(offered)
            require_columns(table, [self.id_column])
            offered = table[self.id_column].to_list()
        names = list(offered)
        _require_distinct(names, self.id_column)
        return self.rows(names)

    @cached_property
    def _places(self) -> dict[Hashable, int]:
        return {name: place for place, name in enumerate(self.ids)}

    def __repr__(self) -> str:
        """Return one line."""
        return (
            f"Catalogue({len(self.ids):,} items, {len(self.encoder.features)} features, "
            f"{self.agent!r})"
        )


@dataclass(frozen=True, eq=False)
class Slate:
    """What was chosen, best first.

    Attributes:
        ids: of the items.
        rows: their positions in the catalogue.
        indices: what the agent expected of them when it chose, in its draw or bound.
        round: the number of the decision, from 1.
    """

    ids: tuple[Hashable, ...]
    rows: Rows
    indices: Vector
    round: int

    def __len__(self) -> int:
        """Return how many items there are."""
        return len(self.ids)


def _opened(frame: Any) -> Any:  # noqa: ANN401 - a native frame
    try:
        return nw.from_native(frame, eager_only=True)
    except TypeError as error:
        msg = f"give a pandas or polars frame, not a {type(frame).__name__}"
        raise TypeError(msg) from error


def _numbers(table: Any, name: str) -> Vector:  # noqa: ANN401 - a frame
    if not table[name].dtype.is_numeric():
        msg = f"column {name!r} holds {table[name].dtype}, not numbers"
        raise ValueError(msg)
    return np.asarray(table[name].to_numpy(), dtype=np.float64)


def _require_distinct(names: Sequence[Hashable], column: str) -> None:
    seen: set[Hashable] = set()
    for row, name in enumerate(names):
        if name in seen:
            msg = f"{column} {name!r} occurs again in row {row}; every item has one row"
            raise ValueError(msg)
        seen.add(name)
