"""The command line, as a person would call it."""

import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest


def run(python: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    program = "from superarm.cli import main; main()"
    return subprocess.run(
        [python, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={"PATH": "", "COLUMNS": "100"},
    )


@pytest.mark.slow
def test_the_demo_prints_a_table_and_leaves_a_figure(python: str, tmp_path: Path) -> None:
    options = ("--rounds", "5", "--repeats", "2", "--output", "here")
    done = run(python, "demo", "subsets", *options, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    for method in ("GP-UCB", "GP-BUCB", "GP-TS", "BI-UCB", "BI-BUCB", "BI-TS"):
        assert method in done.stdout
    assert "here/subsets-regret.png" in done.stdout.replace("\\", "/")
    assert (tmp_path / "here" / "subsets-regret.png").read_bytes().startswith(b"\x89PNG")


def test_the_version_is_the_packages(python: str, tmp_path: Path) -> None:
    done = run(python, "--version", folder=tmp_path)
    assert done.stdout.strip() == f"superarm {version('superarm')}"


def test_misuse_exits_with_two_and_failure_with_one(python: str, tmp_path: Path) -> None:
    assert run(python, "demo", "subsets", "--rounds", "0", folder=tmp_path).returncode == 2
    assert run(python, "frobnicate", folder=tmp_path).returncode == 2
    (tmp_path / "taken").write_text("a file, not a folder")
    failed = run(python, "demo", "subsets", "--output", "taken", folder=tmp_path)
    assert failed.returncode == 1
    assert "superarm:" in failed.stderr
    assert "Traceback" not in failed.stderr
