"""What is asked of stored values, when they are written and whenever they are read.

A question has a name, which is stored beside the value; it returns what a user of the value would
see: means, deviations, indices, choices. What is stored with the value to ask it with (arms,
rewards, rounds) is given by keyword.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from stored.files import plain

Answer = dict[str, Any]

_ROUNDS = (1, 2, 5, 40)


def generator() -> np.random.Generator:
    """Return the same random numbers every time; NumPy has not changed these streams since 1.17."""
    return np.random.default_rng(11)


def level(t: int) -> float:
    """Return the level of a quantile: a function of a user's own."""
    return 0.5 / t


def gain(t: int) -> float:
    """Return a gain of information: likewise."""
    return float(np.log1p(t))


def ask_fields(value: Any, also: tuple[str, ...] = ()) -> Answer:
    """Ask a plain record for all it holds, and for some of what follows from that."""
    answer: Answer = plain(value)
    return answer | {name: plain(getattr(value, name)) for name in also}


def ask_names(value: Any, names: tuple[str, ...]) -> Answer:
    """Ask for some attributes, where not all that is held is public."""
    return {name: plain(getattr(value, name)) for name in names}


def ask_kernel(value: Any, arms: Any, others: Any) -> Answer:
    return {"gram": value.gram(arms, others), "diagonal": value.diagonal(arms)}


def ask_function(value: Any, arms: Any) -> Answer:
    return {"values": value(arms)}


def ask_posterior(value: Any) -> Answer:
    answer = {"mean": value.mean, "std": value.std, "noise_std": value.noise_std}
    if hasattr(value, "covariance"):
        answer |= {"covariance": value.covariance(), "draw": value.sample(generator())}
    return answer


def ask_belief(value: Any, arms: Any, played: Any, rewards: Any, options: Any) -> Answer:
    """Ask what is believed, before and after learning more."""
    after = value.condition(played, rewards, **options)
    answer = ask_posterior(value.posterior(arms))
    return answer | {
        f"later {name}": part for name, part in ask_posterior(after.posterior(arms)).items()
    }


def ask_evidence(value: Any) -> Answer:
    """Ask sums over observations for the precision that they give every arm."""
    size = value.weighted.size
    columns = [value.times(unit) for unit in _units(value, size)]
    parts = {"weighted": value.weighted, "squares": value.squares, "log_noise": value.log_noise}
    return {"precision": np.column_stack(columns), "count": value.count, **parts}


def _units(value: Any, size: int) -> Any:
    units = np.eye(size)
    return units if hasattr(value, "own") else units[:, :, None]  # vectors, or single columns


def ask_ensemble(value: Any, prior: Any, root: Any, places: Any) -> Answer:
    """Ask what an ensemble has learned for the belief that it becomes again."""
    belief = value.resumed(prior, root)
    return ask_posterior(belief.posterior(prior.universe.arms.take(places)))


def ask_root(value: Any) -> Answer:
    """Ask the root of a covariance for its squares."""
    rows = value.times(np.eye(value.size))
    return {"covariance": rows @ rows.T, "unexplained": value.unexplained}


def ask_policy(value: Any, posterior: Any) -> Answer:
    return {f"draw {t}": value.indices(t, posterior, generator()) for t in _ROUNDS}


def ask_width(value: Any) -> Answer:
    return {"widths": [value(t) for t in _ROUNDS]}


def ask_feasible(value: Any, oracle: Any, indices: Any) -> Answer:
    """Ask a feasible set for its best super arm, and what else it has."""
    chosen = oracle.select(value, indices)
    contains = [value.contains(rows) for rows in (chosen, chosen[:1], np.arange(2))]
    return {"chosen": chosen, "size": value.max_size, "contains": contains}


def ask_tree(value: Any, row: int) -> Answer:
    return {"costs": value.costs, "path": value.path(row), "reaches": value.reaches(row)}


def ask_fit(value: Any, arms: Any) -> Answer:
    """Ask a fit for what it found, and for the belief under it."""
    names = ("values", "standard_errors", "before", "evidence", "evidence_before", "problems")
    answer = {name: plain(getattr(value, name)) for name in names}
    return answer | ask_posterior(value.belief.posterior(arms))


def ask_problem(value: Any, played: Any) -> Answer:
    """Ask a world for two rounds, and what is earned in them."""
    rng, answer = generator(), dict[str, Any]()
    for t in (1, 3):
        offer = value.observe(t, rng)
        answer |= {
            f"ids {t}": offer.arms.ids,
            f"contexts {t}": offer.arms.contexts.sum(axis=1),
            f"expected {t}": value.expected_rewards(offer.arms),
            f"draw {t}": value.pull(offer, played, rng),
        }
    return answer


def ask_availability(value: Any) -> Answer:
    rng = generator()
    return {"rows": [value.rows(12, rng).tolist() for _ in _ROUNDS]}


def ask_agent(value: Any, available: Any, mind: Any) -> Answer:
    """Ask an agent for decisions, each after it has learned from the one before."""
    answer: Answer = {}
    for _ in range(2):
        now = type(available)(available.t + len(answer) // 2, available.arms, available.feasible)
        indices = value.indices(now, mind)
        chosen = value.select(now, indices)
        answer |= {f"draw {now.t}": indices, f"chosen {now.t}": chosen}
        value = value.learn(now, chosen, np.arange(chosen.size) % 3 / 2)
    return answer


LEARNING: Mapping[str, Callable[..., Answer]] = {
    "fields": ask_fields,
    "names": ask_names,
    "kernel": ask_kernel,
    "function": ask_function,
    "posterior": ask_posterior,
    "belief": ask_belief,
    "evidence": ask_evidence,
    "ensemble": ask_ensemble,
    "root": ask_root,
    "policy": ask_policy,
    "width": ask_width,
    "feasible": ask_feasible,
    "tree": ask_tree,
    "fit": ask_fit,
    "problem": ask_problem,
    "availability": ask_availability,
    "agent": ask_agent,
}
