"""Install a built wheel in an empty environment and use it as a newcomer would.

Usage: python tools/try_package.py dist
"""

import re
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NEEDED = ("README.md", "LICENSE", "CHANGELOG.md", "tests", "docs", "Makefile", "pyproject.toml")


def main() -> None:
    """Install, run README's first example and a demonstration, look into the source archive."""
    dist = Path(sys.argv[1]).resolve()
    (wheel,), (source,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        inside = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    missing = [name for name in NEEDED if name not in inside]
    if missing:
        sys.exit(f"{source.name} has no {', '.join(missing)}")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        venv.create(place / "venv", with_pip=True)
        scripts = place / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
        python = scripts / "python"
        quiet = ("-m", "pip", "--disable-pip-version-check", "install", "--quiet")
        subprocess.run([python, *quiet, wheel], check=True)
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        example = re.search(r"```python\n(.*?)```", readme, re.DOTALL)
        if example is None:
            sys.exit("README.md has no example")
        (place / "example.py").write_text(example.group(1), encoding="utf-8")
        subprocess.run([python, place / "example.py"], check=True, cwd=place)
        demo = ["demo", "subsets", "--rounds", "30", "--repeats", "2"]
        subprocess.run([scripts / "superarm", *demo], check=True, cwd=place)
    print(f"{wheel.name} and {source.name} are as they should be")


if __name__ == "__main__":
    main()
