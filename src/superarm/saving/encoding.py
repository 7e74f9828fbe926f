"""Values as plain JSON plus arrays, and back: dataclasses by their fields, functions by name."""

import importlib
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from functools import cached_property
from types import FunctionType
from typing import Any, NoReturn, Protocol, Self, runtime_checkable

import numpy as np

from superarm.errors import DataError
from superarm.saving.names import current_name
from superarm.values import assembled, field_values

AnyArray = np.ndarray[Any, np.dtype[Any]]
_PACKAGE = __name__.partition(".")[0]


@runtime_checkable
class Stored(Protocol):
    """A value that is stored otherwise than by its fields."""

    def stored(self) -> dict[str, object]:
        """Return what to store, by name."""
        ...

    @classmethod
    def restored(cls, parts: dict[str, Any], /) -> Self:
        """Return the value from what was stored."""
        ...


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
        self.named: dict[str, object] = {}
        self._keys: dict[int, str] = {}

    def encode(self, value: object) -> object:  # noqa: PLR0911 - one per kind
        """Return the value as JSON, or say what cannot be stored."""
        kind = type(value)
        if value is None or kind in (bool, int, float, str):
            return value
        if isinstance(value, np.generic):
            plain = value.item()
            if type(plain) not in (bool, int, float, str):
                _refuse(value, "of NumPy's numbers only those that Python has too can be saved")
            return plain
        if kind is np.ndarray:
            return {"array": self._key(np.asarray(value))}
        if isinstance(value, (tuple, list)) and kind in (tuple, list):
            return {kind.__name__: [self.encode(item) for item in value]}
        if isinstance(value, dict) and kind is dict:
            if not all(isinstance(key, str) for key in value):
                _refuse(value, "its keys must be strings")
            return {"dict": {key: self.encode(item) for key, item in value.items()}}
        if isinstance(value, (FunctionType, type)):
            return {"name": self._name(value)}
        return {"type": self._name(kind), "fields": self._parts(value)}

    def _parts(self, value: object) -> dict[str, object]:
        if isinstance(value, Stored):
            parts = value.stored()
        elif is_dataclass(value):
            parts = field_values(value)
            self._require_only_fields(value, set(parts))
        elif _is_plain(value):
            parts = {}
        else:
            _refuse(value, "make it a frozen dataclass, or a function with a name in a module")
        return {name: self.encode(part) for name, part in parts.items()}

    @staticmethod
    def _require_only_fields(value: object, names: set[str]) -> None:
        for name in set(vars(value)) - names if hasattr(value, "__dict__") else ():
            if not isinstance(getattr(type(value), name, None), cached_property):
                _refuse(value, f"{name!r} is no field of it; make it a field or a cached_property")

    def _name(self, value: Any) -> str:  # noqa: ANN401 - a class or function
        name = _name_of(value)
        self.named[name] = value
        return name

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
            case None | bool() | int() | float() | str():
                return tree
            case _:
                msg = f"{self._source} is damaged: {str(tree)[:80]!r} stands where a value should"
                raise DataError(msg)

    def _build(self, name: str, parts: dict[str, Any]) -> object:
        cls: Any = self._find(name)
        if not isinstance(cls, type):
            msg = f"{self._source} stores {name} as a class, but it is none"
            raise DataError(msg)
        if issubclass(cls, Stored):
            try:
                return cls.restored(parts)
            except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
                msg = f"{self._source} is damaged: its {name} cannot be restored: {error}"
                raise DataError(msg) from error
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
        name = current_name(name, self._source)
        module, _, path = name.partition(":")
        if module.partition(".")[0] != _PACKAGE:
            msg = (
                f"{self._source} uses {name}, which is not part of {_PACKAGE}; "
                "import it and pass it to load(path, known=[...])"
            )
            raise DataError(msg)
        try:
            found: Any = importlib.import_module(module)
            for part in path.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError, ValueError) as error:
            msg = f"{self._source} uses {name}, which this version does not have"
            raise DataError(msg) from error
        # what a module of ours merely imports is not ours
        if not isinstance(found, (FunctionType, type)) or _name_of(found) != name:
            msg = f"{self._source} uses {name}, which is no class or function of {_PACKAGE}"
            raise DataError(msg)
        return found


def _is_plain(value: object) -> bool:
    """Say whether an object of a class written in Python has no state at all."""
    kind = type(value)
    written = kind.__new__ is object.__new__  # not a class with storage of its own
    slots = any("__slots__" in vars(base) for base in kind.__mro__[:-1])
    return written and not slots and getattr(value, "__dict__", None) == {}


def _refuse(value: object, why: str) -> NoReturn:
    msg = f"cannot save a {type(value).__name__}: {why}"
    raise ValueError(msg)


def _name_of(value: Any) -> str:  # noqa: ANN401 - a class or function
    name: str = value.__qualname__
    if "<" in name:
        msg = f"cannot save {name}: define it at the top level of a module, so that it has a name"
        raise ValueError(msg)
    return f"{value.__module__}:{name}"
