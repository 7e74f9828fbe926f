"""Print the lowest version of every direct dependency, as constraints for pip."""

import re
import sys
import tomllib
from pathlib import Path

_LOWEST = re.compile(r"^(?P<name>[A-Za-z0-9_.-]+)(\[[^]]*\])?>=(?P<version>[0-9.]+)")


def main() -> None:
    """Print one line per dependency."""
    file = Path(sys.argv[1] if len(sys.argv) > 1 else "pyproject.toml")
    project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
    for requirement in project["dependencies"]:
        found = _LOWEST.match(requirement)
        if found is None:
            sys.exit(f"{requirement}: every dependency names its lowest version (name>=version)")
        print(f"{found['name']}=={found['version']}")


if __name__ == "__main__":
    main()
