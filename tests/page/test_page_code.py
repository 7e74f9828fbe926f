"""The page's own code: unit tests by Node's runner, types by TypeScript."""

import shutil
import subprocess
import sys
from pathlib import Path

from parts import require_command, require_path

HERE = Path(__file__).parent
TYPESCRIPT = Path(sys.prefix) / "node" / "node_modules" / "typescript" / "bin" / "tsc"


def test_the_parts_of_the_page_do_what_they_say() -> None:
    require_command("node", "nodejs")
    tests = sorted(str(path) for path in HERE.glob("*.test.mjs"))
    done = subprocess.run(
        [str(shutil.which("node")), "--test", *tests], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_types_of_the_page_fit() -> None:
    require_command("node", "nodejs")
    require_path(TYPESCRIPT, "TypeScript is missing; npm install --prefix .venv/node typescript")
    done = subprocess.run(
        [str(shutil.which("node")), str(TYPESCRIPT), "--project", str(HERE / "tsconfig.json")],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
