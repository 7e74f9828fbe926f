"""Wrong pairings are found by the type checker, right ones pass: capabilities are types."""

import re
from pathlib import Path

import pytest
from mypy import api

HEAD = """
import numpy as np
from numpy.typing import ArrayLike
from superarm import Agent, Arms, Round, play
from superarm.arms import SuperArm
from superarm.arrays import Matrix, Vector
from superarm.beliefs import ExactGP, FiniteGP, IndependentGaussian
from superarm.gaussian import Marginals, rectified_mean
from superarm.kernels import RBF
from superarm.oracles import Dijkstra, Exhaustive, Paths, Subsets, TopK
from superarm.policies import Greedy, JointThompson, MarginalThompson, Rectified

class Menu:
    def observe(self, t: int, rng: np.random.Generator) -> Round[Subsets]:
        return Round(t, Arms([0, 1, 2]), Subsets(3, 2))
    def pull(
        self, available: Round[Subsets], super_arm: SuperArm, rng: np.random.Generator
    ) -> Vector:
        return np.zeros(super_arm.size)

class MarginalBelief:
    def posterior(self, arms: Arms) -> Marginals:
        return Marginals(np.zeros(3), np.ones(3), np.ones(3))
    def condition(
        self, arms: Arms, rewards: Vector, *, noise_variance: ArrayLike | None = None
    ) -> "MarginalBelief":
        return self

class Deaf(MarginalBelief):
    def condition(self, arms: Arms, rewards: Vector) -> "Deaf":  # type: ignore[override]
        return self

rng = np.random.default_rng(0)
exact = ExactGP.from_kernel(RBF(), 0.1)
"""

RIGHT = """
arms = Arms([0, 1, 2])
mine = Agent(FiniteGP.from_covariance([0.0] * 3, np.eye(3)), MarginalThompson(), TopK())
for step, mine in play(Menu(), mine, horizon=3, world=rng, mind=rng):  # the usual loop
    mine.learn(step.round, step.super_arm, step.rewards)
Agent(exact, Greedy(), Exhaustive())
for step, agent in play(Menu(), Agent(exact, JointThompson(), TopK()), 3, world=rng, mind=rng):
    agent.learn(step.round, step.super_arm, step.rewards)
Agent(MarginalBelief(), Rectified(MarginalThompson()), Dijkstra())
Agent(IndependentGaussian([0.0], 1.0), Rectified(JointThompson()), TopK())
Agent(FiniteGP.from_covariance([0.0], [[1.0]]), Greedy(), TopK())
"""

WRONG = {
    "joint draws from a belief without them": ("Agent(MarginalBelief(), JointThompson(), TopK())"),
    "the same, wrapped": "Agent(MarginalBelief(), Rectified(JointThompson()), TopK())",
    "a shortest-path oracle for subsets": (
        "list(play(Menu(), Agent(exact, Greedy(), Dijkstra()), 3, world=rng, mind=rng))"
    ),
    "a belief that cannot be told of noise": ("Agent(Deaf(), MarginalThompson(), TopK())"),
    "a matrix for a vector": "rectified_mean(np.eye(2), np.zeros(2))",
}


def complaints(folder: Path, text: str) -> str:
    script = folder / "script.py"
    script.write_text(HEAD + text, encoding="utf-8")
    cache = folder / "cache"
    output, problems, _ = api.run(["--strict", f"--cache-dir={cache}", str(script)])
    assert not problems, problems
    return output


@pytest.mark.slow
@pytest.mark.parametrize(
    "document", ["README.md", "docs/how-to/agents.md", "docs/explanation/beliefs.md"]
)
def test_documented_code_passes_the_type_checker(document: str, tmp_path: Path) -> None:
    text = (Path(__file__).resolve().parents[1] / document).read_text(encoding="utf-8")
    script = tmp_path / "script.py"
    script.write_text("\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)))
    options = ["--config-file=", "--check-untyped-defs", f"--cache-dir={tmp_path / 'cache'}"]
    output, problems, _ = api.run([*options, "--ignore-missing-imports", str(script)])
    assert "Success" in output, output
    assert not problems


@pytest.mark.slow
def test_right_pairings_pass_and_wrong_ones_are_rejected(tmp_path: Path) -> None:
    assert "Success" in complaints(tmp_path, RIGHT)
    for name, wrong in WRONG.items():
        assert "error" in complaints(tmp_path, wrong), name
