"""Tables in, slates out: with pandas and polars alike."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from parts import require_module

require_module("narwhals", "tables")

from superarm import Agent, DataError  # noqa: E402
from superarm.adapting import Refitting, Watched  # noqa: E402
from superarm.beliefs import FiniteGP, HyperpriorBelief  # noqa: E402
from superarm.kernels import RBF, Matern52  # noqa: E402
from superarm.oracles import TopK  # noqa: E402
from superarm.policies import Greedy, JointThompson, SampledPrior  # noqa: E402
from superarm.problems import ClickRates  # noqa: E402
from superarm.problems.clicks import FEATURES  # noqa: E402
from superarm.saving import save_value  # noqa: E402
from superarm.tables import Catalogue, rate_variance  # noqa: E402

ITEMS: dict[str, list[Any]] = {
    "item": ["pen", "ink", "nib", "cap"],
    "price": [2.0, 5.0, 1.0, 4.0],
    "colour": ["blue", "black", "blue", "red"],
    "new": [True, False, True, False],
}


@pytest.fixture(params=["pandas", "polars"])
def frame(request: pytest.FixtureRequest) -> Any:
    require_module(request.param, "tables")
    return importlib.import_module(request.param).DataFrame


def test_columns_become_features(frame: Any) -> None:
    catalogue = Catalogue.of(frame(ITEMS), ids="item")
    names = ("price", "colour=black", "colour=blue", "colour=red", "new=False", "new=True")
    assert catalogue.encoder.features == names
    assert catalogue.ids == ("pen", "ink", "nib", "cap")
    contexts = catalogue.arms.contexts
    assert_allclose(contexts[:, 0].mean(), 0, atol=1e-12)
    assert_allclose(contexts[:, 0].std(), 1)
    assert contexts[:, 1:4].tolist() == [[0, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert_allclose(catalogue.encoder.encoded(_nw(frame(ITEMS))), contexts)
    some = Catalogue.of(frame(ITEMS), ids="item", features=["price"])
    assert some.encoder.features == ("price",)
    assert "4 items, 6 features" in repr(catalogue)


def _nw(native: Any) -> Any:
    import narwhals as nw  # noqa: PLC0415

    return nw.from_native(native, eager_only=True)


def test_it_learns_from_a_log_as_the_belief_does(frame: Any) -> None:
    catalogue = Catalogue.of(frame(ITEMS), ids="item")
    log = {"item": ["ink", "pen", "ink"], "earned": [1.0, 2.0, 3.0], "noise": [0.1, 0.2, 0.3]}
    known = catalogue.learn(frame(log), reward="earned")
    belief = catalogue.agent.belief.condition(catalogue.arms.take([1, 0, 1]), np.array([1.0, 2, 3]))
    assert_allclose(known.agent.belief.mean, belief.mean)
    assert known.seen.tolist() == [1, 2, 0, 0]
    assert catalogue.seen.tolist() == [0, 0, 0, 0]  # a value
    noisy = catalogue.learn(frame(log), reward="earned", noise_variance="noise")
    assert not np.allclose(noisy.agent.belief.mean, belief.mean)
    assert catalogue.learn(frame({"item": [], "earned": []}), reward="earned") is catalogue


def test_it_decides_among_what_is_on_offer_and_learns_late(frame: Any) -> None:
    catalogue = Catalogue.of(frame(ITEMS), ids="item").learn(
        frame({"item": ["ink", "cap"], "earned": [10.0, -10.0]}), reward="earned"
    )
    greedy = catalogue.with_agent(Agent(catalogue.agent.belief, Greedy(), TopK()))
    rng = np.random.default_rng(0)
    slate = greedy.decide(frame({"item": ["cap", "ink", "pen"]}), 2, rng)
    assert slate.ids[0] == "ink"
    assert len(slate) == 2
    assert slate.indices[0] > slate.indices[1]
    other = greedy.decide(["cap", "nib"], 1, rng)
    later = greedy.after(other, [3.0]).after(slate, [1.0, 2.0])
    earlier = greedy.after(slate, [1.0, 2.0]).after(other, [3.0])
    assert_allclose(later.agent.belief.mean, earlier.agent.belief.mean, atol=1e-9)
    assert later.rounds == 1
    assert later.decide(ITEMS["item"], 1, rng).round == 2


def test_it_explains(frame: Any) -> None:
    catalogue = Catalogue.of(frame(ITEMS), ids="item").learn(
        frame({"item": ["ink", "ink"], "earned": [1.0, 2.0]}), reward="earned"
    )
    asked = frame({"item": ["nib", "ink"], "note": ["a", "b"]})
    told = catalogue.explain(asked, np.random.default_rng(0))
    assert type(told) is type(asked)
    table = _nw(told)
    assert table.columns == ["item", "note", "mean", "low", "high", "seen", "index"]
    assert table["seen"].to_list() == [0, 2]
    low, mean, high = (np.array(table[name].to_list()) for name in ("low", "mean", "high"))
    assert ((low < mean) & (mean < high)).all()
    everything = catalogue.explain()
    assert everything["item"] == ITEMS["item"]
    assert set(everything) == {"item", "mean", "low", "high", "seen"}


def test_it_is_saved_with_its_agent(frame: Any, tmp_path: Path) -> None:
    catalogue = Catalogue.of(frame(ITEMS), ids="item").learn(
        frame({"item": ["ink", "pen"], "earned": [1.0, 2.0]}), reward="earned"
    )
    watched = catalogue.with_agent(Watched(Refitting(catalogue.agent)))
    watched.save(tmp_path / "catalogue")
    again = Catalogue.load(tmp_path / "catalogue")
    assert again.ids == watched.ids
    left, right = (c.decide(ITEMS["item"], 2, np.random.default_rng(3)) for c in (watched, again))
    assert left.ids == right.ids
    assert again.after(right, [1.0, 2.0]).agent.health.rewards == 2
    save_value(catalogue.agent, tmp_path / "agent")
    with pytest.raises(DataError, match="not a catalogue"):
        Catalogue.load(tmp_path / "agent")


def test_any_agent_about_its_arms_will_do(frame: Any) -> None:
    catalogue = Catalogue.of(frame(ITEMS), ids="item")
    priors = [FiniteGP.from_kernel(catalogue.arms, Matern52(s), 0.1) for s in (0.5, 5.0)]
    belief = HyperpriorBelief(priors)
    several = catalogue.with_agent(Agent(belief, SampledPrior(JointThompson()), TopK()))
    several = several.learn(frame({"item": ["ink"], "earned": [1.0]}), reward="earned")
    slate = several.decide(frame(ITEMS), 2, np.random.default_rng(0))
    assert several.after(slate, [0.0, 1.0]).agent.belief.weights.sum() == pytest.approx(1)
    with pytest.raises(ValueError, match="does not know the items"):
        catalogue.with_agent(Agent(FiniteGP.from_covariance([0.0], [[1.0]], 1.0), Greedy(), TopK()))


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (ITEMS | {"price": [2.0, None, 1.0, 4.0]}, "column 'price' has no number or text in row 1"),
        (ITEMS | {"price": [2.0, 1.0, float("inf"), 4.0]}, "in row 2"),
        (
            ITEMS | {"colour": ["a", "b", None, "c"]},
            "column 'colour' has no number or text in row 2",
        ),
        (ITEMS | {"item": ["pen", "ink", "pen", "cap"]}, "item 'pen' occurs again in row 2"),
        ({"item": ["pen"]}, "give one feature at least"),
        ({"name": ["pen"]}, "there is no column 'item'"),
    ],
)
def test_bad_tables_are_refused(frame: Any, items: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Catalogue.of(frame(items), ids="item")


def test_bad_logs_and_questions_are_refused(frame: Any) -> None:
    catalogue = Catalogue.of(frame(ITEMS), ids="item")
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="1 ids are not in the catalogue: 'pencil'"):
        catalogue.learn(frame({"item": ["pencil"], "earned": [1.0]}), reward="earned")
    with pytest.raises(ValueError, match="no column 'paid'; there are item, earned"):
        catalogue.learn(frame({"item": ["pen"], "earned": [1.0]}), reward="paid")
    with pytest.raises(ValueError, match="column 'earned' has no number or text in row 0"):
        catalogue.learn(frame({"item": ["pen"], "earned": [float("nan")]}), reward="earned")
    with pytest.raises(ValueError, match="not numbers"):
        catalogue.learn(frame({"item": ["pen"], "earned": ["much"]}), reward="earned")
    with pytest.raises(ValueError, match="5 of 4 items on offer cannot be chosen"):
        catalogue.decide(frame(ITEMS), 5, rng)
    with pytest.raises(ValueError, match="occurs again"):
        catalogue.decide(["pen", "pen"], 1, rng)
    with pytest.raises(TypeError, match="pandas or polars frame, not a list"):
        Catalogue.of([1, 2], ids="item")
    many = {"item": list(range(100)), "text": [f"t{i}" for i in range(100)]}
    with pytest.raises(ValueError, match="100 different texts"):
        Catalogue.of(frame(many), ids="item")


def test_what_was_not_learned_is_compared_with_what_is_predicted(frame: Any) -> None:
    rng = np.random.default_rng(0)
    shop = ClickRates.sample(rng, n_items=200)
    table = {"sku": list(range(200))}
    table |= {name: shop.items.contexts[:, i].tolist() for i, name in enumerate(FEATURES)}
    shown, rates = shop.history(300, rng)
    variance = rate_variance(np.round(rates * 400), 400)
    log = [
        frame({"sku": shown.ids[part].tolist(), "rate": rates[part], "known": variance[part]})
        for part in (slice(200), slice(200, 300))
    ]
    columns = {"reward": "rate", "noise_variance": "known"}
    catalogue, _ = Catalogue.of(frame(table), ids="sku").learn(log[0], **columns).fitted()
    assert catalogue.checked(log[1], **columns).is_right
    unfitted = Catalogue.of(frame(table), ids="sku")
    assert not unfitted.checked(log[1], reward="rate").is_right
    with pytest.raises(ValueError, match="nothing to compare"):
        catalogue.checked(frame({"sku": [], "rate": []}), reward="rate")


def test_days_are_told_where_rewards_are_late(frame: Any) -> None:
    rng = np.random.default_rng(0)
    catalogue = Catalogue.of(frame(ITEMS), ids="item")
    slates = [catalogue.decide(frame(ITEMS), 2, rng, day=day) for day in (1, 2, 3)]
    assert [slate.round for slate in slates] == [1, 2, 3]
    for slate in reversed(slates):
        catalogue = catalogue.after(slate, [0.1, 0.2])
    assert catalogue.rounds == 3
    assert catalogue.decide(frame(ITEMS), 2, rng).round == 4
    with pytest.raises(ValueError, match="from 1"):
        catalogue.decide(frame(ITEMS), 2, rng, day=0)


@pytest.mark.parametrize(
    ("successes", "trials", "said"),
    [([5], 4, "cannot be"), ([-1], 4, "cannot be"), ([1], 0, "trials"), ([1, 2], [1], "trials")],
)
def test_impossible_rates_are_refused(successes: Any, trials: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        rate_variance(successes, trials)


def test_constant_columns_do_no_harm(frame: Any) -> None:
    catalogue = Catalogue.of(frame(ITEMS | {"one": [7, 7, 7, 7]}), ids="item", features=["one"])
    assert_allclose(catalogue.arms.contexts, 0)
    slate = catalogue.decide(frame(ITEMS), 2, np.random.default_rng(0))
    assert len(slate) == 2


@pytest.mark.slow
def test_a_shop_without_naming_a_number(frame: Any) -> None:
    """History, fit, sixty days: the regret is a small part of that of the unfitted prior's."""
    rng = np.random.default_rng(0)
    shop = ClickRates.sample(rng, n_items=400)
    contexts = shop.items.contexts
    table = {"sku": [f"sku-{i}" for i in range(400)]}
    table |= {name: contexts[:, place].tolist() for place, name in enumerate(FEATURES)}
    shown, rates = shop.history(400, rng)
    history = frame({"sku": [f"sku-{i}" for i in shown.ids], "rate": rates})
    catalogue = Catalogue.of(frame(table), ids="sku").learn(history, reward="rate")
    best = np.sort(shop.rates)[-10:].sum()

    def regret(now: Catalogue) -> float:
        total, world, mind = 0.0, np.random.default_rng(5), np.random.default_rng(6)
        for _ in range(15):
            slate = now.decide(table["sku"], 10, mind)
            total += best - float(shop.rates[slate.rows].sum())
            now = now.after(slate, shop.shown(slate.rows, world))
        return total

    fitted, found = catalogue.fitted()
    assert found.supported or "weight_kg" not in found.values
    assert regret(fitted) < 0.25 * regret(catalogue)
    guess = catalogue.with_agent(
        Agent(
            FiniteGP.from_kernel(catalogue.arms, RBF(0.5), 0.01).condition(
                catalogue.arms.take(catalogue.rows(_nw(history)["sku"].to_list())), rates
            ),
            JointThompson(),
            TopK(),
        )
    )
    assert regret(fitted) < 0.25 * regret(guess)


@pytest.mark.slow
def test_the_tutorials_shop_is_nearly_as_good_as_the_best_prior() -> None:
    """Within 1.5 times of a prior fitted to ten times as much, over two shops."""
    require_module("pandas", "tables")
    pandas: Any = importlib.import_module("pandas")
    columns = {"reward": "rate", "noise_variance": "known"}
    totals = np.zeros(2)
    for seed in (0, 1):
        rng = np.random.default_rng(seed)
        shop = ClickRates.sample(rng)
        items = pandas.DataFrame(shop.items.contexts, columns=FEATURES).assign(sku=range(2_000))
        logs = []
        for rows in (600, 6_000):
            shown, rates = shop.history(rows, rng)
            known = rate_variance(np.round(rates * 400), 400)
            logs.append(pandas.DataFrame({"sku": shown.ids, "rate": rates, "known": known}))
        empty = Catalogue.of(items, ids="sku")
        mine, _ = empty.learn(logs[0], **columns).fitted()
        _, large = empty.learn(logs[1], **columns).fitted()
        found: dict[str, float] = dict(large.values)
        kernel = large.belief.prior.covariance.kernel
        fresh = FiniteGP.from_kernel(empty.arms, kernel, 1.0, found["mean"])
        scaled = logs[0].assign(known=logs[0].known * found["noise_variance"])
        best = empty.with_agent(Agent(fresh, JointThompson(), TopK())).learn(scaled, **columns)
        for place, catalogue in enumerate((mine, best)):
            totals[place] += _lost(shop, catalogue)
    assert totals[0] < 1.5 * totals[1]


def _lost(shop: ClickRates, catalogue: Catalogue) -> float:
    rng = np.random.default_rng(77)
    waiting: list[Any] = []
    total, best = 0.0, np.sort(shop.rates)[-10:].sum()
    for day in range(1, 61):
        slate = catalogue.decide(catalogue.ids, 10, rng, day=day)
        total += float(best - shop.rates[slate.rows].sum())
        waiting.append((slate, shop.shown(slate.rows, rng)))
        if len(waiting) > 3:
            earlier, rates = waiting.pop(0)
            known = rate_variance(np.round(rates * 400), 400)
            catalogue = catalogue.after(earlier, rates, noise_variance=known)
    return total
