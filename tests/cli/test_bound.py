"""Bounds from the command line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from superarm.problems.guarantee import Example, guarantee, measure
from superarm.theory import finite_bound

PROGRAM = "from superarm.cli import main; main()"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, "bound", "evaluate", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_known_quantities_give_the_theorem() -> None:
    done = run("--policy", "bucb", "--omega", "1.1", "--xi", "1.3", "--information-gain", "7.5",
               "--largest-eigenvalue", "2", "--json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    expected = finite_bound(
        "bucb", n_arms=100, super_arm_size=5, horizon=200, noise_variance=0.25,
        information_gain=7.5, largest_eigenvalue=2.0, omega=1.1, xi=1.3,
    )  # fmt: skip
    assert json.loads(done.stdout)["total"] == expected.total


def test_a_problem_gives_terms_and_a_figure(tmp_path: Path) -> None:
    figure = tmp_path / "bound.png"
    small = ("--arms", "30", "--horizon", "20", "--size", "3", "--repeats", "4")
    done = run("--policy", "ts", "--figure", str(figure), *small)
    assert done.returncode == 0, done.stderr
    for text in ("gamma_TK at most", "lambda*_K", "root", "total", "measured regret"):
        assert text in done.stdout
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_misuse_is_told() -> None:
    assert run("--information-gain", "1").returncode == 2
    assert run("--policy", "best").returncode == 2
    failed = run("--policy", "bucb", "--omega", "1", "--xi", "2")
    assert failed.returncode == 1
    assert "omega must exceed 1" in failed.stderr
    assert run("--size", "500").returncode == 1
    missing = run("--policy", "bucb", "--arms", "3000", "--size", "3")
    assert "needs omega" in missing.stderr  # at once, not after minutes
    with pytest.raises(ValueError, match="repeats must be at least 2"):
        measure(Example(), "ucb", repeats=1)


@pytest.mark.parametrize("policy", ["ucb", "bucb", "ts"])
def test_regret_measured_with_the_librarys_agents_lies_below_both_bounds(policy: str) -> None:
    example = Example(n_arms=40, horizon=25, super_arm_size=3, offered=20)
    options = {"omega": 1.1, "xi": 1.3} if policy == "bucb" else {}
    worst = guarantee(example, policy, **options)  # type: ignore[arg-type]  # one of the three
    found = measure(example, policy, repeats=12, **options)  # type: ignore[arg-type]
    regret = found.result.regret
    assert (regret.mean + 4 * regret.standard_error < found.curve.mean).all()
    assert found.curve.mean[-1] < worst.bound.total
    assert worst.gain.lower <= worst.gain.upper
