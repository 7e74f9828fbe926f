"""The command line, as a person would call it."""

import json
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


def test_networks_are_generated_shown_imported_and_listed(python: str, tmp_path: Path) -> None:
    made = run(python, "network", "generate", "--edges", "600", "--seed", "3", folder=tmp_path)
    assert made.returncode == 0, made.stderr
    assert "dead ends" in made.stdout
    shown = run(python, "network", "show", "city.npz", folder=tmp_path)
    assert "Picture: city.png" in shown.stdout
    assert (tmp_path / "city.png").read_bytes().startswith(b"\x89PNG")
    taken = run(python, "network", "import", "city.npz", "--output", "own.npz", folder=tmp_path)
    assert taken.returncode == 0, taken.stderr
    listed = run(python, "network", "list", "--json", folder=tmp_path)
    assert {entry["file"] for entry in json.loads(listed.stdout)} == {"city.npz", "own.npz"}


def test_bad_networks_are_told_without_a_traceback(python: str, tmp_path: Path) -> None:
    (tmp_path / "broken.npz").write_bytes(b"nothing")
    for arguments in (("show", "broken.npz"), ("show", "missing.npz"), ("import", "map.pdf")):
        failed = run(python, "network", *arguments, folder=tmp_path)
        assert failed.returncode == 1, arguments
        assert "superarm:" in failed.stderr
        assert "Traceback" not in failed.stderr
    assert run(python, "network", "generate", "--edges", "7", folder=tmp_path).returncode == 2


@pytest.mark.slow
def test_the_navigation_demo_leaves_a_page_of_its_own(python: str, tmp_path: Path) -> None:
    options = ("--rounds", "4", "--repeats", "2", "--edges", "600", "--output", "here")
    done = run(python, "demo", "navigation", *options, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "here" / "navigation.html").read_text(encoding="utf-8")
    assert "data:image/png;base64," in page
    assert 'src="http' not in page
    for method in ("GP-UCB", "GP-BUCB", "GP-TS", "BI-UCB", "BI-BUCB", "BI-TS"):
        assert method in done.stdout
        assert method in page


@pytest.mark.slow
def test_the_congestion_demo_leaves_a_figure(python: str, tmp_path: Path) -> None:
    options = ("--rounds", "4", "--repeats", "2", "--edges", "600", "--output", "here")
    done = run(python, "demo", "congestion", *options, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "here" / "congestion-regret.png").exists()
