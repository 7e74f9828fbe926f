"""The paper's prior, its problem of navigation and its methods, and a small experiment."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from characterisation import asking
from characterisation.forms import Answer, Files, digest, means, summarise
from characterisation.reports import Truth

SEED, EDGES, TRUTH_SEED = 13, 600, 4
ROUNDS = 8


def answers() -> Files:
    """Return priors, rounds, and what an experiment writes down."""
    network = asking.generate(SEED, EDGES)
    truth = Truth.draw(asking.roads_of(network), TRUTH_SEED)
    return {
        "paper-prior": _priors(network, truth),
        "rounds": _rounds(network),
        "experiment": _experiment(),
    }


def _priors(network: asking.Network, truth: Truth) -> dict[str, Answer]:
    rng = np.random.default_rng(21)
    edges = rng.integers(truth.roads.n, size=120)
    costs = np.round(truth.energy_wh(edges) + rng.standard_normal(edges.size), 4)
    cases: dict[str, Answer] = {}
    for rectify in ("energy", "dissipation"):
        model = asking.paper_prior(network, rectify, physical=rectify == "dissipation")
        described = asking.describe_prior(model, 22)
        cases[rectify] = {name: summarise(values) for name, values in described.items()}
        for name, posterior in asking.learn_edges(model, edges, costs).items():
            cases[f"{rectify} {name}"] = {key: summarise(v) for key, v in posterior.items()}
    return cases


def _rounds(network: asking.Network) -> dict[str, Answer]:
    """Return rounds of every method, and of one in other worlds."""
    methods = ("GP-UCB", "GP-BUCB", "GP-TS", "BI-UCB", "BI-BUCB", "BI-TS")
    asked: dict[str, dict[str, Any]] = {name: {"route": "A", "method": name} for name in methods}
    asked["GP-TS, dissipation"] = {
        "route": "B", "method": "GP-TS", "rectify": "dissipation", "truth": "positive",
        "efficiency": "physical",
    }  # fmt: skip
    asked["BI-TS, closures"] = {"route": "B", "method": "BI-TS", "closed": 0.2}
    asked["GP-TS, congestion"] = {"route": "A", "method": "GP-TS", "congestion": True}
    cases = {}
    for name, options in asked.items():
        played = asking.play_rounds(network, horizon=ROUNDS, **options)
        routes = played.pop("edges")
        cases[name] = played | {
            "sizes": [len(r) for r in routes],
            "edges": digest(map(str, routes)),
        }
    return cases


def _experiment() -> dict[str, Answer]:
    with tempfile.TemporaryDirectory(prefix="superarm-net-") as name:
        runs = asking.run_study(Path(name))
    return {
        run: {column: means(values) for column, values in columns.items()}
        for run, columns in runs.items()
    }
