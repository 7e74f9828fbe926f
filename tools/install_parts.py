"""Install the optional parts that tests need, when SUPERARM_STRICT=1 asks for all of them.

Without it nothing is installed and tests of missing parts skip, saying so. Debian packages are
installed only as root and with CI set: a developer's own machine is left alone.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

PYTHON_PARTS = {
    "torch": "torch",
    "gpytorch": "gpytorch",
    "sumolib": "sumolib",
    "pyproj": "pyproj",
    "osmium": "osmium",
    "rasterio": "rasterio",
    "sumo": "eclipse-sumo",
    "libsumo": "libsumo",
    "ray": "ray",
    "pandas": "pandas",
    "polars": "polars",
    "duckdb": "duckdb",
    "schemathesis": "schemathesis",
    "playwright": "playwright",
    "axe_playwright_python": "axe-playwright-python",
}
"""Importable module -> requirement, versions by constraints.txt."""

DEBIAN_PARTS: dict[str, str] = {
    "chromium": "chromium",
    "pg_ctlcluster": "postgresql",
    "nginx": "nginx-light",
    "openssl": "openssl",
    "systemd-analyze": "systemd",
    "node": "nodejs",
    "npm": "npm",
}
"""Command -> Debian package."""

NODE_PARTS = {"typescript": "typescript@5.9"}
"""Folder of a package -> what to ask the npm registry for."""


def main() -> None:
    """Install what is missing and can be installed."""
    if os.environ.get("SUPERARM_STRICT") != "1":
        return
    missing = [
        requirement
        for module, requirement in PYTHON_PARTS.items()
        if importlib.util.find_spec(module) is None
    ]
    if missing:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        subprocess.run([*pip, "--constraint", "constraints.txt", *missing], check=True)
    packages = [name for command, name in DEBIAN_PARTS.items() if shutil.which(command) is None]
    if packages and _may_use_apt():
        apt = shutil.which("apt-get")
        if apt is not None:
            quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
            subprocess.run([apt, "update", "-qq"], check=True, env=quiet)
            subprocess.run(
                [apt, "install", "-y", "-qq", "--no-install-recommends", *packages],
                check=True,
                env=quiet,
                stdout=subprocess.DEVNULL,
            )
    _install_node_parts()


def _install_node_parts() -> None:
    npm, folder = shutil.which("npm"), Path(sys.prefix) / "node"
    missing = [
        wanted
        for name, wanted in NODE_PARTS.items()
        if not (folder / "node_modules" / name).is_dir()
    ]
    if missing and npm is not None:
        folder.mkdir(exist_ok=True)
        subprocess.run(
            [npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", folder, *missing],
            check=True,
        )


def _may_use_apt() -> bool:
    return bool(os.environ.get("CI")) and hasattr(os, "geteuid") and os.geteuid() == 0


if __name__ == "__main__":
    main()
