"""Rounds per second of every method of the experiments, deciding and learning included.

On Luxembourg A where the road networks are at hand (SUPERARM_DATA), else on
a generated city of the same size.
"""

from pathlib import Path
from typing import Any

from common import report, say, table

from superarm.experiments import Experiment, expand
from superarm.experiments.execution import execute
from superarm.experiments.places import data_folders, open_place, routes_of

HORIZON = 500
METHODS: dict[str, dict[str, Any]] = {
    "GP-UCB": {"policy": "ucb"},
    "GP-BUCB": {"policy": "bucb"},
    "GP-TS": {"policy": "ts"},
    "GP-jointTS": {"policy": "joint-ts"},
    "BI-UCB": {"belief": "independent", "policy": "ucb"},
    "BI-BUCB": {"belief": "independent", "policy": "bucb"},
    "BI-TS": {"belief": "independent", "policy": "ts"},
    "streaming-TS": {"belief": "streaming", "policy": "ts"},
    "SVGP-TS": {"belief": "sparse", "policy": "ts"},
}


def main() -> None:
    """Run every method once, T = 500."""
    there = any((folder / "luxembourg.net.xml.gz").is_file() for folder in data_folders(None))
    named = {"network": "luxembourg"} if there else {"network": "city", "edges": 5700}
    experiment = Experiment.model_validate(
        {
            "name": "methods",
            "horizon": HORIZON,
            "repeats": 1,
            "places": [{**named, "routes": ["A"]}],
            "methods": METHODS,
        }
    )
    place = experiment.places[0]
    network = open_place(place, Path(), data_folders(None))
    routes = routes_of(place, network, 0, data_folders(None))
    runs = expand(experiment, {place.network: network.fingerprint()}, {place.network: routes})
    execute(runs[0].model_copy(update={"horizon": 3}), network)  # compile, factorise
    rows = []
    for spec in runs:
        record = execute(spec, network)
        ms = record.columns["ms"]
        say(f"{spec.method}: {ms.mean():.2f} ms")
        rows.append(
            {
                "method": spec.method,
                "rounds per CPU second": 1e3 / float(ms.mean()),
                "mean CPU ms": float(ms.mean()),
                "last 50 rounds, ms": float(ms[-50:].mean()),
                "distinct edges": int(record.columns["distinct_edges"][-1]),
                "regret (Wh)": float(record.columns["cumulative_regret_wh"][-1]),
            }
        )
    where = f"{network.name}, {network.n_edges:,} edges, route A, T = {HORIZON}, one world"
    report(table(f"Every method on {where}", rows, "Regret of a single world: see results/."))


if __name__ == "__main__":
    main()
