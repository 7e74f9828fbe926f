"""Decide and learn for 5,000 arms, top 60, side by side with bayesianbandits' shared learner."""

from typing import Any

import numpy as np
from bayesianbandits import (
    Arm,
    FunctionArmFeaturizer,
    LipschitzContextualAgent,
    NormalRegressor,
    ThompsonSampling,
)
from common import NOISE_VARIANCE, cpu_ms, kernel, points, report, say, table

from superarm import Agent
from superarm.arms import Round
from superarm.beliefs import FiniteGP, IndependentGaussian
from superarm.oracles import Subsets, TopK
from superarm.policies import JointThompson, MarginalThompson

N_ARMS, SIZE, ROUNDS = 5000, 60, 40


def main() -> None:
    """Play the same problem with both libraries."""
    arms = points(N_ARMS)
    truths = {
        "GP (nonlinear)": kernel().draw_many(arms, np.random.default_rng(1)),
        "linear": arms.contexts @ np.array([0.7, -0.5, 0.5]),
    }
    prior = FiniteGP.from_kernel(arms, kernel(), NOISE_VARIANCE)
    independent = IndependentGaussian(np.zeros(N_ARMS), 1.0, NOISE_VARIANCE)
    agents: dict[str, Any] = {
        "superarm exact GP, marginal TS": Agent(prior, MarginalThompson(), TopK()),
        "superarm exact GP, joint TS": Agent(prior, JointThompson(), TopK()),
        "superarm independent, TS": Agent(independent, MarginalThompson(), TopK()),
    }
    tables = []
    for kind, truth in truths.items():
        rows = [ours(name, agent, arms, truth) for name, agent in agents.items()]
        rows.append(theirs(arms.contexts, truth))
        tables.append(
            table(
                f"{N_ARMS:,} arms with 3 features, top {SIZE}, {ROUNDS} rounds, truth: {kind}",
                rows,
                "Milliseconds of CPU, median. Regret: mean over all rounds, as a share of the "
                "best super arm's reward.",
            )
        )
    report(*tables)


def ours(name: str, agent: Agent[Any, Any], arms: Any, truth: Any) -> dict[str, Any]:  # noqa: ANN401
    """Play one of our agents."""
    feasible = Subsets(N_ARMS, SIZE)
    world, mind = np.random.default_rng(2), np.random.default_rng(3)
    deciding, learning, regret = [], [], []
    best = np.sort(truth)[-SIZE:].sum()
    for t in range(1, ROUNDS + 1):
        now = Round(t, arms, feasible)
        chosen: Any = None

        def decide() -> None:
            nonlocal chosen
            chosen = agent.decide(now, mind)  # noqa: B023 - called at once

        def learn() -> None:
            nonlocal agent
            agent = agent.learn(now, chosen, rewards)  # noqa: B023 - called at once

        deciding.append(cpu_ms(decide))
        rewards = truth[chosen] + np.sqrt(NOISE_VARIANCE) * world.standard_normal(SIZE)
        learning.append(cpu_ms(learn))
        regret.append(1 - truth[chosen].sum() / best)
    return _row(name, deciding, learning, regret)


def theirs(contexts: Any, truth: Any) -> dict[str, Any]:  # noqa: ANN401
    """Play their agent: one linear model with an intercept shared by all arms."""
    features = np.column_stack([np.ones(N_ARMS), contexts])
    learner = NormalRegressor(alpha=1.0, beta=1 / NOISE_VARIANCE, random_state=0)

    def featurise(_: Any, tokens: Any) -> Any:  # noqa: ANN401
        return features[np.asarray(tokens)].T[None, :, :]

    agent = LipschitzContextualAgent(
        [Arm(number) for number in range(N_ARMS)],
        ThompsonSampling(),
        FunctionArmFeaturizer(featurise),
        learner,
        random_seed=0,
    )
    world = np.random.default_rng(2)
    nothing = np.zeros((1, 1))
    best = np.sort(truth)[-SIZE:].sum()
    deciding, learning, regret = [], [], []
    for _ in range(ROUNDS):
        chosen: Any = None

        def decide() -> None:
            nonlocal chosen
            chosen = agent.pull(nothing, top_k=SIZE)[0]

        def learn() -> None:
            for token, reward in zip(chosen, rewards, strict=True):  # noqa: B023
                agent.select_for_update(token).update(nothing, np.array([reward]))

        deciding.append(cpu_ms(decide))
        rewards = truth[chosen] + np.sqrt(NOISE_VARIANCE) * world.standard_normal(SIZE)
        learning.append(cpu_ms(learn))
        regret.append(1 - truth[chosen].sum() / best)
    return _row("bayesianbandits, shared linear learner, TS", deciding, learning, regret)


def _row(name: str, deciding: Any, learning: Any, regret: Any) -> dict[str, Any]:  # noqa: ANN401
    row = {
        "agent": name,
        "decide ms": float(np.median(deciding)),
        f"learn {SIZE} ms": float(np.median(learning)),
        "regret, all rounds": float(np.mean(regret)),
        "regret, last 10": float(np.mean(regret[-10:])),
    }
    say(str(row))
    return row


if __name__ == "__main__":
    main()
