"""Own policies, kernels and oracles, named in a study as ``"module:Name"``."""

import importlib
import sys
from pathlib import Path
from typing import Any

from superarm.kernels import Kernel

_METHODS = {"policy": "indices", "kernel": "gram", "oracle": "select"}


def importable(folder: Path) -> None:
    """Let parts be imported from a folder, too; worker processes inherit it."""
    place = str(folder.resolve())
    if place not in sys.path:
        sys.path.append(place)


def require_part(kind: str, name: str) -> Any:  # noqa: ANN401 - the user's
    """Return what a name stands for, or raise `ValueError` saying what is wrong with it.

    Args:
        kind: ``policy``, ``kernel`` or ``oracle``.
        name: ``"module:Name"``; the module is imported from the Python path, to which a study adds
            the folder of its file.
    """
    module, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for attribute in path.split("."):
            found = getattr(found, attribute)
    except ImportError as error:
        msg = (
            f"{name}: module {module!r} cannot be imported ({error}); put its file beside the "
            "study's, or install it"
        )
        raise ValueError(msg) from error
    except AttributeError as error:
        msg = f"{name}: {error}"
        raise ValueError(msg) from error
    except Exception as error:  # whatever the user's module does when it is imported
        msg = f"{name}: module {module!r} fails when it is imported: {error!r}"
        raise ValueError(msg) from error
    if not callable(found):
        msg = f"{name} is no class or function that makes a {kind}"
        raise ValueError(msg)  # noqa: TRY004 - as all that is wrong with a name
    return found


def make_part(kind: str, name: str, options: dict[str, Any]) -> Any:  # noqa: ANN401 - the user's
    """Return the user's part, made with the options that the study gives.

    Raises:
        ValueError: if it cannot be made, or is not what it should be.
    """
    made: Any
    try:
        made = require_part(kind, name)(**options)
    except Exception as error:  # whatever the user's part does
        msg = f"{name} cannot be made with {options or 'no options'}: {error}"
        raise ValueError(msg) from error
    method = _METHODS[kind]
    if not callable(getattr(made, method, None)) or (
        kind == "kernel" and not isinstance(made, Kernel)
    ):
        base = (
            "derive it from superarm.kernels.Kernel"
            if kind == "kernel"
            else "see docs/how-to/agents.md"
        )
        msg = f"{name} makes a {type(made).__name__}, which is no {kind} with {method}(); {base}"
        raise ValueError(msg)
    return made
