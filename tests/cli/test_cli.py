"""The command line, as a person would call it."""

import json
import os
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


def test_outputs_that_nobody_could_read_are_refused_at_once(python: str, tmp_path: Path) -> None:
    city = run(python, "network", "generate", "--output", "city.txt", folder=tmp_path)
    assert city.returncode == 2
    assert "network files end in .npz" in city.stderr
    options = ("--arms", "20", "--horizon", "5", "--repeats", "2", "--figure", "b.xyz")
    bound = run(python, "bound", "evaluate", *options, folder=tmp_path)
    assert bound.returncode == 1
    assert "pictures end in .png" in bound.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write")
def test_a_folder_that_cannot_be_written_to_is_named(python: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    told = run(python, "network", "generate", "--edges", "500", folder=tmp_path)
    assert told.returncode == 1
    assert "'city.npz'" in told.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("serve", "--network"),
        ("network", "show"),
        ("trips", "report", "t.parquet", "--service", "http://127.0.0.1:9", "--network"),
    ],
)
def test_a_network_that_is_not_there_is_named_with_what_to_do(
    python: str, tmp_path: Path, command: tuple[str, ...]
) -> None:
    told = run(python, *command, "missing.npz", folder=tmp_path)
    assert told.returncode == 1
    assert "there is no file missing.npz" in told.stderr
    assert "superarm network generate" in told.stderr
    assert "Errno" not in told.stderr


def test_help_lists_every_noun(python: str, tmp_path: Path) -> None:
    told = run(python, "--help", folder=tmp_path)
    assert told.returncode == 0
    for noun in ("demo", "network", "experiment", "figure", "bound", "serve"):
        assert f" {noun} " in told.stdout
    assert " - " not in told.stdout.split("Commands")[-1].replace("–", "-").split("serve")[0]
