"""One bad key does not speak for all; what all see is not held against anybody."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from parts import require_module, require_networks
from superarm.roads.network import generate_city
from superarm.roads.network.formats.reading import open_network
from superarm.roads.vehicle import Vehicle

require_module("fastapi", "service")

from superarm.roads.models.fleet import KEY_DEVIATION  # noqa: E402
from superarm.roads.models.likelihood import Source  # noqa: E402
from superarm.roads.vehicle import CLASSES  # noqa: E402
from superarm.service.learning.comparing import compared, predicted  # noqa: E402
from superarm.service.learning.trust import Trust  # noqa: E402
from towns import KEY_EFFECT, TRIP_EFFECT, Run, Town, read_trip, season  # noqa: E402

MOST_HARM = 0.02
ATTACKS: dict[str, Callable[[float, float], float]] = {
    "kWh": lambda energy, _: energy / 1000,
    "wrong sign": lambda energy, _: -energy,
    "30 % too much": lambda energy, _: 1.3 * energy,
    "made up": lambda energy, chance: 2 * chance * abs(energy),
}


@pytest.fixture(scope="module")
def town() -> Town:
    return Town(generate_city(seed=1, n_edges=600).largest_component())


@cache
def honest_season(town: Town, seed: int, trips: int, share: float) -> Run:
    """What comes of a season without the tenth key, once for all attacks."""
    return season(town, seed, trips, None, share)


def harm(town: Town, clean: Run, spoilt: Run, seed: int) -> dict[str, float]:
    """What a bad key has changed, as shares: over the season, and at its end."""
    drivetrain = town.fleet.drivetrain(Vehicle())
    truth, n = town.truth_wh(seed), town.network.n_edges
    rng = np.random.default_rng(99)
    ends = [tuple(int(e) for e in rng.choice(n, 2, replace=False)) for _ in range(100)]
    routes = [town.best(clean.posterior.cost_wh(drivetrain), *pair) for pair in ends]
    others = [town.best(spoilt.posterior.cost_wh(drivetrain), *pair) for pair in ends]
    before, after = (run.posterior.energy_wh(drivetrain) for run in (clean, spoilt))
    predicted = sum(abs(before[edges].sum() - after[edges].sum()) for edges in routes)
    return {
        "predicted": spoilt.predicted_wh / clean.predicted_wh - 1,
        "driven": spoilt.true_wh / clean.true_wh - 1,
        "predicted at the end": predicted / sum(abs(before[edges].sum()) for edges in routes),
        "driven at the end": sum(truth[edges].sum() for edges in others)
        / sum(truth[edges].sum() for edges in routes)
        - 1,
    }


@pytest.mark.parametrize("attack", ["kWh", "made up"])  # the others in more worlds, below
def test_one_bad_key_changes_nothing_for_others(town: Town, attack: str) -> None:
    clean = honest_season(town, 0, 500, 0.3)
    spoilt = season(town, 0, 500, ATTACKS[attack], 0.3)
    assert set(clean.aside) == set()
    assert clean.alarms == []
    assert set(spoilt.aside) == {"9"}
    found = harm(town, clean, spoilt, 0)
    assert max(abs(share) for share in found.values()) < MOST_HARM, found
    assert spoilt.learned >= 0.99 * spoilt.honest


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.1, 0.3])
@pytest.mark.parametrize("attack", ATTACKS)
def test_one_bad_key_changes_nothing_in_other_worlds(town: Town, attack: str, share: float) -> None:
    for seed in range(1, 4):
        clean = honest_season(town, seed, 600, share)
        spoilt = season(town, seed, 600, ATTACKS[attack], share)
        found = harm(town, clean, spoilt, seed)
        assert max(abs(part) for part in found.values()) < MOST_HARM, (seed, found)
        for run in (clean, spoilt):
            assert run.learned >= 0.99 * run.honest
            assert set(run.aside) <= {"9"}


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["regions", "any"])
def test_energy_shifted_from_edges_to_others_is_noticed(town: Town, pattern: str) -> None:
    """Totals stay as they are; the parts of each trip do not fit what others have driven."""
    n, noise = town.network.n_edges, town.fleet.drivetrain(Vehicle()).noise_wh
    sign = np.where(np.arange(n) < n // 2, 1.0, -1.0)
    if pattern == "any":
        sign = np.random.default_rng(0).permutation(sign)

    def shifted(share: float) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        def attack(energies: np.ndarray, edges: np.ndarray) -> np.ndarray:
            shift = share * noise * sign[edges]
            return np.asarray(energies + shift - shift.mean())

        return attack

    honest = season(town, 0, 300, shifted(0.0), 0.3, by_edge=True)
    clean = season(town, 0, 300, None, 0.3, by_edge=True)
    assert honest.aside == clean.aside == {}
    much = season(town, 0, 300, shifted(3.0), 0.3, by_edge=True)
    assert set(much.aside) == {"9"}
    assert "parts of its trips" in much.aside["9"]
    assert max(abs(part) for part in harm(town, clean, much, 0).values()) < MOST_HARM
    little = season(town, 0, 300, shifted(0.7), 0.3, by_edge=True)  # too little to be noticed
    assert max(abs(part) for part in harm(town, honest, little, 0).values()) < MOST_HARM


def test_a_bad_key_that_is_not_stopped_would_do_harm(town: Town) -> None:
    """The law above is not empty: without gains and trust, the same trips move predictions."""
    rng = np.random.default_rng(0)
    truth, n = town.truth_wh(0), town.network.n_edges
    trips = []
    for number in range(300):
        edges = town.best(truth, *(int(e) for e in rng.choice(n, 2, replace=False)))
        energy = float(truth[edges].sum() * np.exp(TRIP_EFFECT * rng.standard_normal()))
        factor = 1.3 if number % 3 == 0 else 1.0
        trips.append((town.total(edges, factor * energy), Source(-1, 0.0, TRIP_EFFECT)))
    belief = town.prior.condition_evidence(town.reader.evidence(trips))
    drivetrain = town.fleet.drivetrain(Vehicle())
    believed = town.posterior(belief).energy_wh(drivetrain)
    moved = sum(believed[trip.edges].sum() for trip, _ in trips)
    assert moved > 1.05 * sum(truth[trip.edges].sum() for trip, _ in trips)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_winter_sets_nobody_aside_but_is_told(town: Town, seed: int) -> None:
    run = season(town, seed, 700, None, 0.1, winter=350)
    assert run.aside == {}
    assert any("most keys report more energy" in alarm for alarm in run.alarms)
    assert any("times as much as predicted" in alarm for alarm in run.alarms)
    assert run.spread > 1.2 * TRIP_EFFECT  # wider than before
    assert run.learned >= 0.98 * run.honest


def refused(town: Town, learned: int, trips: int, seed: int) -> dict[str, float]:
    """The shares of reports over two kilometres that are refused, honest and mistaken ones."""
    rng = np.random.default_rng(seed)
    n, gains = town.network.n_edges, KEY_EFFECT * rng.standard_normal(10)
    truths = {name: town.truth_wh(seed, vehicle) for name, vehicle in CLASSES.items()}
    drivetrain = town.fleet.drivetrain(Vehicle())

    def drive(name: str, key: int) -> tuple[np.ndarray, float]:
        while True:
            ends = (int(e) for e in rng.choice(n, 2, replace=False))
            edges = town.best(drivetrain.cost_wh * rng.uniform(0.5, 1.5, n), *ends)
            if town.network.length_m[edges].sum() > 2_000:
                break
        energy = truths[name][edges].sum() * np.exp(
            TRIP_EFFECT * rng.standard_normal() + gains[key]
        )
        noise = town.fleet.noise_wh(CLASSES[name]) * np.sqrt(edges.size)
        return edges, float(energy + noise * rng.standard_normal())

    known = []
    for number in range(learned):
        edges, energy = drive("car", number % 10)
        known.append((town.total(edges, energy), Source(number % 10, KEY_DEVIATION, TRIP_EFFECT)))
    belief = town.prior
    if known:
        belief = belief.condition_evidence(town.reader.evidence(known))
    posterior = town.posterior(belief, learned)
    counts: dict[str, list[bool]] = {}
    for number in range(trips):
        name, key = ("car", "car", "van", "truck")[number % 4], number % 10
        edges, energy = drive(name, key)
        source = Source(key, KEY_DEVIATION, TRIP_EFFECT)
        reports = {"honest": energy, "kWh": energy / 1e3, "kJ": 3.6 * energy, "zero": 0.0}
        honest = town.judge(town.total(edges, energy, CLASSES[name]), source, posterior)
        sure = abs(honest.expected_wh) > 3 * honest.std_wh
        if sure:
            reports |= {"sign": -energy, "kJ, sure": 3.6 * energy}
        for kind, report in reports.items():
            verdict = town.judge(town.total(edges, report, CLASSES[name]), source, posterior)
            counts.setdefault(kind, []).append(verdict.reason is not None)
    return {kind: float(np.mean(found)) for kind, found in counts.items()}


def test_units_and_signs_are_refused_and_honest_trips_are_not(town: Town) -> None:
    for learned in (0, 200):
        found = refused(town, learned, 1_500, 3)
        assert found["honest"] <= 0.003, found  # one in a thousand, counted on 1,500
        assert found["kWh"] >= 0.98
        assert found["zero"] >= 0.98
        assert found["sign"] >= 0.99
        assert found["kJ, sure"] >= 0.97
        # downhill, 3.6 times next to nothing is next to nothing; and before the first trip the
        # level of all roads is not known: in simulated worlds physics are 15 to 35 per cent low
        assert found["kJ"] >= (0.8 if learned else 0.7)


@pytest.mark.slow
def test_units_and_signs_are_refused_on_real_roads() -> None:
    luxembourg = open_network(require_networks() / "luxembourg.net.xml.gz").largest_component()
    found = refused(Town(luxembourg), 300, 3_000, 4)
    assert found["honest"] <= 0.0015, found
    assert found["kWh"] >= 0.99
    assert found["zero"] >= 0.99
    assert found["sign"] >= 0.99
    assert found["kJ, sure"] >= 0.98
    assert found["kJ"] >= 0.94


@pytest.mark.slow
def test_sending_back_what_was_predicted_buys_no_trust(town: Town) -> None:
    """Many trips exactly as predicted, then one route at 1.4 times what is believed, and again."""
    rng = np.random.default_rng(0)
    truth, n = town.truth_wh(0), town.network.n_edges
    drivetrain = town.fleet.drivetrain(Vehicle())
    belief, trust, trips = town.prior, Trust(), 0
    posterior = town.posterior(belief, trust=trust)

    def drive() -> np.ndarray:
        ends = (int(e) for e in rng.choice(n, 2, replace=False))
        return np.asarray(town.best(drivetrain.cost_wh * rng.uniform(0.5, 1.5, n), *ends))

    def told(key: int, edges: np.ndarray, energy: float) -> None:
        nonlocal belief, trust, posterior, trips
        source = Source(key, KEY_DEVIATION, posterior.spread_of(str(key)))
        verdict = town.judge(town.total(edges, energy), source, posterior)
        if verdict.reason is not None:
            return
        one = predicted(read_trip(0, str(key), verdict.trip, source), posterior, town.reader)
        trust = trust.after(compared([one], posterior))
        belief = belief.condition_evidence(town.reader.evidence([(verdict.trip, source)]))
        trips += 1
        posterior = town.posterior(belief, trips, trust)

    for number in range(300):
        edges = drive()
        told(number % 4, edges, truth[edges].sum() * np.exp(TRIP_EFFECT * rng.standard_normal()))
    target = max((drive() for _ in range(20)), key=lambda edges: truth[edges].sum())
    before = posterior.energy_wh(drivetrain)[target].sum()
    for number in range(57 + 12 * 8):
        attack = number >= 57 and (number - 57) % 8 == 0
        edges = target if attack else drive()
        now = posterior.energy_wh(drivetrain)[edges].sum()
        told(5, edges, 1.4 * now if attack else now)
        if number == 56:
            assert posterior.spread_of("5") >= posterior.spread > posterior.spreads["5"]
    after = posterior.energy_wh(drivetrain)[target].sum()
    assert abs(after / before - 1) < 0.1  # twelve trips that nobody contradicts say something
