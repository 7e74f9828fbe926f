"""Two versions of the library on the same rounds, in turns: is the newer one slower?

Usage: python benchmarks/commits.py OLD_SOURCE NEW_SOURCE [REPEATS], with the `src` folders of two
checkouts. Prints the table that is kept in results/commits.md.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

CASES = ("rounds GP-TS", "rounds GP-UCB", "rounds BI-TS", "navigation GP-TS", "navigation GP-UCB")
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

WORKER = """
import json, sys, time
import numpy as np
from superarm import Agent
from superarm.arms import Arms, Round
from superarm.beliefs import FiniteGP, IndependentGaussian
from superarm.kernels import Matern52
from superarm.roads.bandit import NavigationProblem, navigator
from superarm.roads.network import generate_city
from superarm.oracles import Subsets, TopK
from superarm.policies import MarginalThompson, UpperConfidenceBound
from superarm.theory import UCBWidth

def timed(agent, observe, pull, rounds):
    world, mind, times = np.random.default_rng(2), np.random.default_rng(3), []
    for t in range(1, rounds + 1):
        now = observe(t, world)
        begin = time.process_time()
        chosen = agent.decide(now, mind)
        middle = time.process_time()
        rewards = pull(now, chosen, world)
        again = time.process_time()
        agent = agent.learn(now, chosen, rewards)
        times.append(1e3 * (middle - begin + time.process_time() - again))
    return float(np.median(times))

case, policy = sys.argv[1].split()
if case == "rounds":
    n, k = 6000, 70
    arms = Arms(np.arange(n), np.random.default_rng(0).random((n, 3)))
    kernel = Matern52(0.3)
    truth = kernel.draw_many(arms, np.random.default_rng(1))
    belief = FiniteGP.from_kernel(arms, kernel, 0.25)
    if policy.startswith("BI"):
        belief = IndependentGaussian(np.zeros(n), 1.0, 0.25)
    index = UpperConfidenceBound(UCBWidth(n)) if policy.endswith("UCB") else MarginalThompson()
    found = timed(
        Agent(belief, index, TopK()),
        lambda t, rng: Round(t, arms, Subsets(n, k)),
        lambda now, chosen, rng: truth[chosen] + 0.5 * rng.standard_normal(k),
        300,
    )
else:
    city = generate_city(0, 5700).largest_component()
    ends = (str(city.edge_ids[10]), str(city.edge_ids[2600]))
    problem = NavigationProblem(city, *ends, rng=np.random.default_rng(0))
    found = timed(navigator(problem, policy), problem.observe, problem.pull, 300)
print(json.dumps(found))
"""


def main() -> None:
    """Time every case with both sources, in turns."""
    old, new = (Path(path).resolve() for path in sys.argv[1:3])
    repeats = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    print("| case | before, ms per round | now, ms per round | now / before |\n|---|---|---|---|")
    for case in CASES:
        times = np.array([[_time(source, case) for source in (old, new)] for _ in range(repeats)])
        before, now = times.min(axis=0)
        print(f"| {case} | {before:.2f} | {now:.2f} | {now / before:.2f} |", flush=True)


def _time(source: Path, case: str) -> float:
    done = subprocess.run(  # noqa: S603 - the code above
        [sys.executable, "-c", WORKER, case],
        env=os.environ | THREADS | {"PYTHONPATH": str(source)},
        check=True,
        capture_output=True,
        text=True,
    )
    return float(json.loads(done.stdout))


if __name__ == "__main__":
    main()
