"""Experiments from the command line: end to end, killed, interrupted, on Ray."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from parts import require_module
from studies import assert_same_results, write_toml
from superarm.experiments import Study

PROGRAM = "from superarm.cli import main; main()"
POSIX = pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-c", PROGRAM, *map(str, arguments)]


def run(*arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "COLUMNS": "120"},
    )


@pytest.mark.slow
def test_an_experiment_end_to_end(tmp_path: Path) -> None:
    """The small twin of the paper's comparison, as a user runs it."""
    file = Path("compare-city")  # by its name, anywhere
    done = run("experiment", "run", file, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "120 runs finished, 0 were there, 0 failed" in done.stdout
    folder = tmp_path / "runs" / "compare-city"
    assert (folder / "report.html").is_file()
    assert (folder / "figures" / "regret.pdf").is_file()
    again = run("experiment", "run", file, "--no-figures", folder=tmp_path)
    assert "0 runs finished, 120 were there" in again.stdout
    study = Study(folder)
    assert study.paired("GP-TS", "GP-UCB").mean < 0
    told = json.loads(run("experiment", "status", file, "--json", folder=tmp_path).stdout)
    assert {part["method"]: part["missing"] for part in told} == dict.fromkeys(
        study.experiment.methods, 0
    )
    listed = run("experiment", "list", "--json", folder=tmp_path)
    stored = {row["name"]: row["stored_runs"] for row in json.loads(listed.stdout)}
    assert stored["compare-city"] == 120
    assert run("experiment", "summarise", folder, folder=tmp_path).returncode == 0
    drawn = run("figure", "draw", folder, "--output", "drawn", folder=tmp_path)
    assert "regret.png" in drawn.stdout
    assert (tmp_path / "drawn" / "regret.png").is_file()
    pair = run("experiment", "paired", folder, "GP-TS", "GP-UCB", "--json", folder=tmp_path)
    assert json.loads(pair.stdout)["all"]["pairs"] == 20
    assert "City B" in run("experiment", "paired", folder, "GP-TS", "BI-TS", folder=tmp_path).stdout
    table = run("experiment", "status", file, folder=tmp_path)
    assert "GP-BUCB" in table.stdout
    assert "report.html" in run("experiment", "report", folder, folder=tmp_path).stdout
    for wrong in (("GP-TS", "nobody"), ("GP-TS", "BI-TS", "--column", "foo")):
        told = run("experiment", "paired", folder, *wrong, folder=tmp_path)
        assert told.returncode == 1
        assert "there are GP-UCB" in told.stderr or "cumulative_regret_wh" in told.stderr
        assert "Traceback" not in told.stderr


def test_names_of_studies_are_never_cut(tmp_path: Path) -> None:
    narrow = subprocess.run(
        [sys.executable, "-c", PROGRAM, "experiment", "list"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "80"},
    )
    for name in ("compare-svgp-city", "lengthscale-svgp-city", "rivals-subsets", "compare"):
        assert f"{name} " in narrow.stdout
    names = [line.split()[1] for line in narrow.stdout.splitlines() if line.startswith("│")]
    assert "routes" not in names


def test_mistakes_and_misuse(tmp_path: Path) -> None:
    file = write_toml(tmp_path / "small.toml")
    assert run("experiment", "run", file, "--address", "auto", folder=tmp_path).returncode == 2
    assert run("experiment", "run", file, "--jobs", "0", folder=tmp_path).returncode == 2
    file.write_text(file.read_text().replace('policy = "ts"', 'policy = "tss"'))
    wrong = run("experiment", "run", file, folder=tmp_path)
    assert wrong.returncode == 1
    assert "methods.GP-TS.policy" in wrong.stderr
    assert "Traceback" not in wrong.stderr
    assert not (tmp_path / "runs").exists()
    assert run("figure", "draw", tmp_path, folder=tmp_path).returncode == 1


def test_without_pyarrow_it_says_what_to_install(tmp_path: Path) -> None:
    file = write_toml(tmp_path / "small.toml")
    hide = "import sys; sys.modules['pyarrow'] = None; "
    arguments = ["experiment", "run", str(file)]
    done = subprocess.run(
        [sys.executable, "-c", hide + PROGRAM, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 1
    assert "pip install 'superarm[experiments]'" in done.stderr


def test_a_run_that_raises_makes_the_command_fail_in_the_end(tmp_path: Path) -> None:
    file = write_toml(tmp_path / "small.toml", horizon=3, repeats=2)
    shut = '\n[world]\ntraffic = ["free", "closed-turns"]\nclosed_share = 0.97\n[methods]'
    file.write_text(file.read_text().replace("\n[methods]", shut))
    done = run("experiment", "run", file, "--jobs", "1", folder=tmp_path)
    assert done.returncode == 1
    assert "4 runs finished, 0 were there, 4 failed" in done.stdout
    assert "Failed: runs/small/failures/city-A" in done.stderr
    assert "Report:" in done.stdout


@POSIX
@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_killing_it_at_any_moment_loses_only_runs_in_flight(tmp_path: Path, jobs: str) -> None:
    file = write_toml(tmp_path / "small.toml", horizon=40, repeats=12)
    options = ("experiment", "run", file, "--jobs", jobs, "--no-figures", "--output")
    assert run(*options, "calm", folder=tmp_path).returncode == 0
    rng = random.Random(int(jobs))  # noqa: S311 - moments, not secrets
    stored: dict[Path, bytes] = {}
    for _ in range(6):
        process = subprocess.Popen(
            command(*options, "hit"),
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        before = len(list((tmp_path / "hit").glob("runs/*/*/*/*/manifest.json")))
        deadline = time.monotonic() + 240
        while process.poll() is None and time.monotonic() < deadline:
            now = len(list((tmp_path / "hit").glob("runs/*/*/*/*/manifest.json")))
            if now > before:
                break
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.1))
        process.kill()
        process.wait()
        for path, content in stored.items():
            assert path.read_bytes() == content  # what was finished stays as it was
        study = Study(tmp_path / "hit")
        assert not study.notes  # nothing is damaged
        for found in study.runs:
            for part in ("manifest.json", "steps.parquet", "visits.parquet"):
                stored[found.folder / part] = (found.folder / part).read_bytes()
    assert run(*options, "hit", folder=tmp_path).returncode == 0
    assert not list((tmp_path / "hit" / "writing").iterdir())
    assert_same_results(tmp_path / "calm", tmp_path / "hit")


@POSIX
@pytest.mark.slow
def test_ctrl_c_stops_cleanly_and_leaves_no_worker(tmp_path: Path) -> None:
    file = write_toml(tmp_path / "small.toml", horizon=300, repeats=40)
    # what runs in the background of a shell ignores Ctrl-C, and so would its children
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    arguments = ["experiment", "run", str(file), "--jobs", "2", "--output", "out"]
    process = subprocess.Popen(
        [sys.executable, "-c", heed + PROGRAM, *arguments],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 240
    while not list((tmp_path / "out").glob("runs/*/*/*/*/manifest.json")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers as well
    _, told = process.communicate(timeout=180)
    assert process.returncode == 130
    assert "the same command goes on" in told
    assert "Traceback" not in told
    while _group_exists(process.pid):  # workers end a moment later
        assert time.monotonic() < deadline + 240
        time.sleep(0.05)
    assert not Study(tmp_path / "out").notes


def _group_exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@POSIX
@pytest.mark.slow
def test_ray_gives_the_same_results_and_replaces_a_killed_worker(tmp_path: Path) -> None:
    require_module("ray", "ray")
    file = write_toml(tmp_path / "small.toml", horizon=60, repeats=4)
    options = ("experiment", "run", file, "--jobs", "2", "--no-figures", "--output")
    assert run(*options, "local", folder=tmp_path).returncode == 0
    process = subprocess.Popen(
        command(*options, "ray", "--engine", "ray"),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    killed = 0
    while process.poll() is None and not killed:
        for worker in _busy_ray_workers():
            os.kill(worker, signal.SIGKILL)
            killed += 1
            break
        time.sleep(0.01)
    told = process.communicate(timeout=400)
    assert process.returncode == 0, told
    assert killed == 1
    assert "8 runs finished, 0 were there, 0 failed" in told[0]
    assert_same_results(tmp_path / "local", tmp_path / "ray")


def _busy_ray_workers() -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            name = entry.read_bytes()
        except OSError:
            continue  # it has ended meanwhile
        if name.startswith(b"ray::attempt"):
            found.append(int(entry.parent.name))
    return found
