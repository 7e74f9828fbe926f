"""Whatever fits the schema, and much that does not, is answered without a server error."""

import subprocess
import sys
from pathlib import Path

import pytest

from parts import require_module
from services import add_key, running, small_city

require_module("fastapi", "service")
require_module("schemathesis", "dev")

CHECKS = (
    "not_a_server_error,status_code_conformance,"
    "content_type_conformance,response_schema_conformance"
)


@pytest.mark.slow
@pytest.mark.parametrize("demo", [False, True])
def test_the_whole_schema_finds_no_server_error(tmp_path: Path, demo: bool) -> None:
    small_city().save(tmp_path / "city.npz")
    key = add_key(str(tmp_path / "t.db"), "admin")
    roads = ["--demo"] if demo else ["--network", "city.npz", "--database", "t.db"]
    with running(tmp_path, *roads, "--rate", "1000000", key=key) as server:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/v1/openapi.json"),
                *("--header", f"authorization: Bearer {key}", "--checks", CHECKS),
                *("--max-examples", "40", "--seed", "1", "--phases", "examples,coverage,fuzzing"),
                *("--warnings", "off", "--suppress-health-check", "all"),
                *("--request-timeout", "600"),  # how long an answer takes is tried elsewhere
            ],
            check=False,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0, done.stdout[-6000:]
        wrong = [line for line in server.lines if '"level": "error"' in line]
        assert wrong == []
        assert server.ask("GET", "/readyz").status == 200
