"""Towns in which keys drive, report and are learned from, without a server."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from superarm.oracles import Dijkstra, Paths
from superarm.roads.models import EnergyModel
from superarm.roads.models.fleet import Fleet
from superarm.roads.models.likelihood import MeasuredTrip, Reader, Source
from superarm.roads.models.posterior import RoadPosterior
from superarm.roads.network import RoadNetwork
from superarm.roads.vehicle import Vehicle
from superarm.service.http.surprises import Surprises
from superarm.service.learning.blocks import block_of, next_cut
from superarm.service.learning.comparing import Comparer
from superarm.service.learning.gains import gains_of
from superarm.service.learning.trust import Trust
from superarm.service.trips.intake import Checked
from superarm.service.trips.plausibility import Verdict, judged
from superarm.service.trips.reading import ReadTrip
from superarm.service.trips.standings import Standing

TRIP_EFFECT, KEY_EFFECT = 0.15, 0.05
KEYS = 10
BATCH = 5


class Town:
    """A network, its vehicles, and what the roads really cost."""

    def __init__(self, network: RoadNetwork) -> None:
        self.network = network
        self.fleet = Fleet(network)
        self.reader = Reader.of(self.fleet)
        self.prior: Any = self.fleet.prior()
        n = network.n_edges
        self._paths = Paths.on_turns(n, network.turns, *(int(e) for e in network.turns[0]))

    def truth_wh(self, seed: int, vehicle: Vehicle | None = None) -> Any:
        """True energies of all edges: physics times a log-normal field."""
        car = self.fleet.reference.vehicle
        model = EnergyModel(self.network, car, "physical", "dissipation")
        true = model.draw_truth_wh("positive", np.random.default_rng(seed)) - model.potential_wh
        factor = true / np.maximum(model.prior_cost_wh, 1e-9)
        drivetrain = self.fleet.drivetrain(vehicle or Vehicle())
        return drivetrain.cost_wh * factor + drivetrain.potential_wh

    def best(self, cost: Any, start: int, goal: int) -> Any:
        paths = self._paths.between(start, goal)
        return Dijkstra().select(paths, -np.maximum(cost, 1e-9))

    def posterior(self, belief: Any, trips: int = 0, trust: Trust | None = None) -> RoadPosterior:
        found = RoadPosterior.of(self.fleet, belief, np.zeros(self.network.n_edges), trips=trips)
        if trust is None:
            return found
        return RoadPosterior(
            self.fleet,
            found.belief,
            0,
            trips,
            found.std,
            found.counts,
            trust.spread,
            trust.spreads(),
        )

    def total(self, edges: Any, energy_wh: float, vehicle: Vehicle | None = None) -> MeasuredTrip:
        last = np.array([edges.size - 1])
        return MeasuredTrip(vehicle or Vehicle(), edges, np.array([0]), last, np.array([energy_wh]))

    def judge(self, trip: MeasuredTrip, source: Source, posterior: RoadPosterior) -> Verdict:
        return judged(trip, source, posterior, self.reader)


class Blocks:
    """Trips that are learned as the service does: see `superarm.service.learning.fold`."""

    def __init__(self, town: Town) -> None:
        self._town = town
        self.trips: list[ReadTrip] = []
        self.known = self.trust = Trust()
        self.belief = self._base = town.prior
        self._cut = 0  # trips up to this number are known to the base
        self._begin_block(town.prior)

    def _begin_block(self, base: Any) -> None:
        town = self._town
        self._base = base
        self._comparer = Comparer(town.posterior(base), town.reader, "", print)

    def learn(self, some: list[ReadTrip]) -> None:
        """Learn more trips; the block goes on."""
        self.trips += some
        self.belief = self._learned(self.belief, some)
        tail = [one for one in self.trips if one.sequence > self._cut]
        self.trust = self.known.after(*self._comparer.compare(tail))

    def end_block(self) -> None:
        """Begin another block if it is time for that."""
        newest = self.trips[-1].sequence if self.trips else 0
        if newest >= next_cut(self._cut, block_of(0, exact=True)):
            self._cut, self.known = newest, self.trust
            self._begin_block(self.belief)

    def forget(self, keys: list[str]) -> None:
        """Learn everything again but for these keys."""
        self.trips = [one for one in self.trips if one.key_id not in keys]
        self.known = self.known.without(keys)
        before = [one for one in self.trips if one.sequence <= self._cut]
        self._begin_block(self._learned(self._town.prior, before))
        self.belief = self._base
        after = [one for one in self.trips if one.sequence > self._cut]
        self.trips = before
        self.learn(after)

    def _learned(self, belief: Any, some: list[ReadTrip]) -> Any:
        if not some:
            return belief
        evidence = self._town.reader.evidence([(one.trip, one.source) for one in some])
        return belief.condition_evidence(evidence)


def read_trip(number: int, key: str, trip: MeasuredTrip, source: Source) -> ReadTrip:
    return ReadTrip(number, key, trip, source, "", counts=True)


@dataclass
class Run:
    """What came of a season of trips."""

    posterior: RoadPosterior
    honest: int = 0
    learned: int = 0
    predicted_wh: float = 0.0
    true_wh: float = 0.0
    aside: dict[str, str] = field(default_factory=dict)
    alarms: list[str] = field(default_factory=list)
    spread: float = 0.0


def season(  # noqa: C901, PLR0912, PLR0913, PLR0915, PLR0917 - a world, a villain, a season
    town: Town,
    seed: int,
    trips: int,
    attack: Callable[..., Any] | None,
    share: float,
    winter: int | None = None,
    *,
    by_edge: bool = False,
) -> Run:
    """Ten keys drive best routes; the tenth reports `attack(energy, chance)`, or nothing at all.

    With `by_edge` every edge is measured, and the attack is on `(energies, edges)`.

    The same random numbers are used with and without it, so that runs can be compared.
    """
    rng = np.random.default_rng(seed)
    truth, n = town.truth_wh(seed), town.network.n_edges
    gains = KEY_EFFECT * rng.standard_normal(KEYS)
    drivetrain = town.fleet.drivetrain(Vehicle())
    standings = {str(k): Standing(str(k), k) for k in range(KEYS)}
    blocks, surprises = Blocks(town), Surprises()
    pending: list[ReadTrip] = []
    run = Run(town.posterior(blocks.belief))

    def again() -> None:
        nonlocal pending
        pending = [one for one in pending if one.key_id not in run.aside]
        blocks.forget(list(run.aside))
        run.posterior = town.posterior(blocks.belief, len(blocks.trips), blocks.trust)

    for moment in range(trips):
        chance, who, noise, trip_effect = (
            rng.random(),
            int(rng.integers(KEYS - 1)),
            rng.standard_normal(),
            rng.standard_normal(),
        )
        start, goal = (int(e) for e in rng.choice(n, 2, replace=False))
        made_up = rng.random()
        villain = chance < share
        if villain and attack is None:
            continue
        k = KEYS - 1 if villain else who
        key = str(k)
        edges = town.best(run.posterior.cost_wh(drivetrain), start, goal)
        level = 1.3 if winter is not None and moment >= winter else 1.0
        energy = level * truth[edges].sum() * np.exp(TRIP_EFFECT * trip_effect + gains[k])
        energy += drivetrain.noise_wh * np.sqrt(edges.size) * noise
        report = town.total(edges, energy)
        if by_edge:
            each = level * truth[edges] * np.exp(TRIP_EFFECT * trip_effect + gains[k])
            each += drivetrain.noise_wh * np.random.default_rng([seed, moment]).standard_normal(
                edges.size
            )
            every = np.arange(edges.size)
            if villain:
                assert attack is not None
                each = attack(each, edges)
            report = MeasuredTrip(Vehicle(), edges, every, every, each)
        if villain:
            assert attack is not None
            report = report if by_edge else town.total(edges, attack(float(energy), made_up))
        else:
            run.honest += 1
            run.predicted_wh += float(run.posterior.energy_wh(drivetrain)[edges].sum())
            run.true_wh += float(truth[edges].sum())
        if key in run.aside:
            continue
        spread = run.posterior.spread_of(key)
        source = standings[key].source(spread)
        verdict = judged(report, source, run.posterior, town.reader, surprises.widened())
        item = Checked(key, key, None, "", {}, verdict.reason, verdict.z)  # type: ignore[arg-type]
        refused = surprises.after([item])
        if refused:
            run.aside |= refused
            again()
        if verdict.reason is not None or key in run.aside:
            continue
        pending.append(read_trip(moment + 1, key, verdict.trip, source))
        if len(pending) < BATCH:
            continue
        blocks.learn(pending)
        pending = []
        run.posterior = town.posterior(blocks.belief, len(blocks.trips), blocks.trust)
        believed = {name: how for name, how in standings.items() if name not in run.aside}
        suspects = blocks.trust.suspects(gains_of(town.fleet, blocks.belief, believed))
        if suspects:
            run.aside |= suspects
            again()
        else:
            blocks.end_block()
        if (told := blocks.trust.contradiction()) is not None:
            run.alarms.append(told)
        if (drift := blocks.trust.drift()) is not None:
            run.alarms.append(drift)
    run.learned = sum(one.key_id != str(KEYS - 1) for one in blocks.trips + pending)
    run.spread = blocks.trust.spread
    return run
