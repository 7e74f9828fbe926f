"""Writes values of classes that 0.2 removes; run at commit 7ac0679, which has them.

PYTHONPATH=tests python tests/stored/write_removed.py
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from stored.asking.studies import ask_logs
from stored.files import DATA, pack, write_json
from stored.writing.learning import ARMS, KERNEL, REWARDS, ROWS, N
from stored.writing.roads import EDGES, ROADS, a_drive
from superarm import Agent, save
from superarm.adapting import Forgetting
from superarm.beliefs import Evidence, InducedGP
from superarm.beliefs.ensemble import DeviceEnsembleGP
from superarm.matching import ved
from superarm.navigation import RoadModel
from superarm.navigation.turns import TurnModel
from superarm.oracles import TopK
from superarm.policies import Greedy, JointThompson
from superarm.saving import save_value
from superarm.saving.parquet import write_columns


def values() -> dict[str, Any]:
    """Return beliefs, agents with them, and references to classes that hold tensors."""
    belief = InducedGP.from_kernel(ARMS, KERNEL, 0.1, n_inducing=6)
    learned = belief.condition(ARMS.take(ROWS), REWARDS)
    evidence = Evidence.nothing(N)
    model = TurnModel(RoadModel(ROADS))
    drive = a_drive(0)
    return {
        "InducedGP": learned,
        "InducedGP-forgetful": InducedGP.from_kernel(ARMS, KERNEL, 0.1, keep_evidence=False),
        "InducedGP-posterior": learned.posterior(ARMS.take([0, 3])),
        "ProjectedEvidence": learned.projected(evidence),
        "among-others": {"belief": learned, "numbers": [1, 2.5], "kernel": KERNEL},
        "DeviceEnsembleGP": DeviceEnsembleGP,
        "TurnModel": model,
        "TurnBelief": model.belief().condition([(EDGES, drive.energy_wh)]),
        "ved": ved.write_electric_logs,
    }


def agents() -> dict[str, Any]:
    """Return agents that believe by them."""
    belief: Any = InducedGP.from_kernel(ARMS, KERNEL, 0.1, n_inducing=6)
    plain: Any = Agent(belief.condition(ARMS.take(ROWS), REWARDS), JointThompson(), TopK())
    return {
        "agent": plain,
        "Forgetting": Forgetting(Agent(belief, Greedy(), TopK()), 0.9),
    }


def main() -> None:
    """Write them."""
    folder = DATA / "removed"
    folder.mkdir()
    with tempfile.TemporaryDirectory() as temporary:
        for name, value in values().items():
            save_value(value, Path(temporary) / f"{name}.superarm")
        for name, agent in agents().items():
            save(agent, Path(temporary) / f"{name}.superarm", t=2, mind=np.random.default_rng(1))
        pack(Path(temporary), folder / "0.1.tar.gz")
    rng, count = np.random.default_rng(0), 40
    clock = np.arange(count)
    rows = np.column_stack(
        [
            np.full(count, 12.25), np.full(count, 7.0), 1000.0 * clock, 1e-5 * clock,
            2e-5 * clock, 30 + rng.random(count), np.full(count, 4.5),
            -20.0 - rng.random(count), 80 - 0.01 * clock, np.full(count, 360.0),
        ]
    )  # fmt: skip
    log = folder / "ved-log.parquet"
    write_columns(log, ved._log(5, rows))  # noqa: SLF001 - as a whole archive is read
    write_json(folder / "ved-log.json.gz", ask_logs(log))


if __name__ == "__main__":
    main()
