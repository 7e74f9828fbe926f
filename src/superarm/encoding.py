"""Values as plain JSON plus arrays, and back: dataclasses by their fields, functions by name."""

import importlib
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import Any, Protocol

import numpy as np

from superarm.errors import DataError
from superarm.values import Stored, assembled, field_values

AnyArray = np.ndarray[Any, np.dtype[Any]]
_PACKAGE = __name__.partition(".")[0]


class ArrayStore(Protocol):
    """Arrays by key."""

    def __getitem__(self, key: str, /) -> AnyArray:
        """Return one array."""
        ...


class Encoder:
    """Turns values into JSON and collects their arrays; one array seen twice is stored once."""

    def __init__(self) -> None:
        """Start with no arrays."""
        self.arrays: dict[str, AnyArray] = {}
        self._keys: dict[int, str] = {}

    def encode(self, value: object) -> object:  # noqa: PLR0911 - one per kind
        """Return the value as JSON, or say what cannot be stored."""
        match value:
            case None | bool() | int() | float() | str():
                return value
            case np.generic():
                return value.item()
            case np.ndarray():
                return {"array": self._key(value)}
            case tuple() | list():
                return {type(value).__name__: [self.encode(item) for item in value]}
            case dict():
                return {"dict": {str(key): self.encode(item) for key, item in value.items()}}
        if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
            return {"name": _name_of(value)}
        return {"type": _name_of(type(value)), "fields": self._parts(value)}

    def _parts(self, value: object) -> dict[str, object]:
        if isinstance(value, Stored):
            parts = value.stored()
        elif is_dataclass(value):
            parts = field_values(value)
        elif not getattr(value, "__dict__", {}):
            parts = {}
        else:
            msg = f"cannot save a {type(value).__name__}: make it a frozen dataclass"
            raise ValueError(msg)
        return {name: self.encode(part) for name, part in parts.items()}

    def _key(self, array: AnyArray) -> str:
        if array.dtype.hasobject:
            msg = f"cannot save an array of Python objects (dtype {array.dtype})"
            raise ValueError(msg)
        key = self._keys.setdefault(id(array), f"array-{len(self._keys)}")
        self.arrays[key] = array  # also keeps it alive, so that its id stays its own
        return key


class Decoder:
    """Builds values from JSON and arrays; only this package's classes and those named as known."""

    def __init__(self, source: str, arrays: ArrayStore, known: Iterable[object]) -> None:
        """Remember where the arrays are and what may be built."""
        self._source = source
        self._arrays = arrays
        self._known = {_name_of(item): item for item in known}
        self._read: dict[str, AnyArray] = {}

    def decode(self, tree: Any) -> Any:  # noqa: ANN401, PLR0911 - whatever was stored
        """Return the value."""
        match tree:
            case {"array": str(key)}:
                if key not in self._read:
                    self._read[key] = self._arrays[key]
                return self._read[key]
            case {"tuple": list(items)}:
                return tuple(self.decode(item) for item in items)
            case {"list": list(items)}:
                return [self.decode(item) for item in items]
            case {"dict": dict(items)}:
                return {key: self.decode(item) for key, item in items.items()}
            case {"name": str(name)}:
                return self._find(name)
            case {"type": str(name), "fields": dict(parts)}:
                return self._build(name, {key: self.decode(item) for key, item in parts.items()})
            case _:
                return tree

    def _build(self, name: str, parts: dict[str, Any]) -> object:
        cls: Any = self._find(name)
        if not isinstance(cls, type):
            msg = f"{self._source} stores {name} as a class, but it is none"
            raise DataError(msg)
        if issubclass(cls, Stored):
            return cls.restored(parts)
        expected = {field.name for field in fields(cls)} if is_dataclass(cls) else set()
        if expected != set(parts):
            msg = (
                f"{self._source} stores {name} with fields {sorted(parts)}, but this version has "
                f"{sorted(expected)}; read it with the version that wrote it"
            )
            raise DataError(msg)
        return assembled(cls, **parts)

    def _find(self, name: str) -> object:
        if name in self._known:
            return self._known[name]
        module, _, path = name.partition(":")
        if module.partition(".")[0] != _PACKAGE:
            msg = (
                f"{self._source} uses {name}, which is not part of {_PACKAGE}; "
                "import it and pass it to load(path, known=[...])"
            )
            raise DataError(msg)
        try:
            found: object = importlib.import_module(module)
            for part in path.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError) as error:
            msg = f"{self._source} uses {name}, which this version does not have"
            raise DataError(msg) from error
        return found


def _name_of(value: Any) -> str:  # noqa: ANN401 - a class or function
    name: str = value.__qualname__
    if "<" in name:
        msg = f"cannot save {name}: define it at the top level of a module, so that it has a name"
        raise ValueError(msg)
    return f"{value.__module__}:{name}"
