"""Optional parts that some tests need: skip with a reason, or fail under SUPERARM_STRICT=1."""

import importlib.util
import os
import shutil
from pathlib import Path

import pytest


def strict() -> bool:
    return os.environ.get("SUPERARM_STRICT") == "1"


def networks_folder() -> Path:
    beside = Path(__file__).resolve().parents[2] / "shared" / "networks"
    return Path(os.environ.get("SUPERARM_DATA", beside))


def require_module(name: str, extra: str) -> None:
    if importlib.util.find_spec(name) is None:
        _absent(f"{name} is not installed; pip install 'superarm[{extra}]'")


def require_command(name: str, package: str) -> None:
    if shutil.which(name) is None:
        _absent(f"{name} is not installed; apt-get install {package}")


def require_path(path: Path, reason: str) -> None:
    if not path.exists():
        _absent(reason)


def require_networks() -> Path:
    folder = networks_folder()
    if not folder.is_dir():
        _absent("the road networks are missing; name their folder in SUPERARM_DATA")
    return folder


def real_folder() -> Path:
    """Real maps and drives: beside the road networks."""
    return networks_folder().parent / "real"


def require_real() -> Path:
    folder = real_folder()
    if not folder.is_dir():
        _absent("real maps and drives are missing; put them into real/ beside the road networks")
    return folder


def _absent(reason: str) -> None:
    if strict():
        pytest.fail(f"SUPERARM_STRICT=1 and {reason}")
    pytest.skip(reason, allow_module_level=True)
