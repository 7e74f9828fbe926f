"""Put this package's version into a list of what is inside: tools cannot read a dynamic one.

Usage: python tools/name_sbom.py sbom.json
"""

import json
import sys
from pathlib import Path

import superarm


def main() -> None:
    """Name the version; refuse a list that is about something else or empty."""
    path = Path(sys.argv[1])
    known = json.loads(path.read_text(encoding="utf-8"))
    about = known["metadata"]["component"]
    if about["name"] != "superarm" or len(known.get("components", [])) < 10:  # noqa: PLR2004 - it has some dozens
        sys.exit(f"{path} is not about superarm and all that it needs")
    about["version"] = superarm.__version__
    about["purl"] = f"pkg:pypi/superarm@{superarm.__version__}"
    path.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")
    print(f"{path}: superarm {superarm.__version__} and {len(known['components'])} others")


if __name__ == "__main__":
    main()
