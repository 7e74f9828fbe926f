"""Frozen values put together without their constructor: for checked parts and stored state."""

from dataclasses import fields
from typing import Any, TypeVar

_Value = TypeVar("_Value")


def assembled(cls: type[_Value], **parts: object) -> _Value:
    """Return a dataclass instance with these fields, whose parts have been checked before."""
    value = object.__new__(cls)
    for name, part in parts.items():
        object.__setattr__(value, name, part)
    return value


def changed(value: _Value, **parts: object) -> _Value:
    """Return a copy of a dataclass instance with some fields replaced, unchecked."""
    known = field_values(value)
    unknown = parts.keys() - known.keys()
    if unknown:
        msg = (
            f"{type(value).__name__} has no field {min(unknown)!r}; its fields are "
            f"{', '.join(known)}"
        )
        raise TypeError(msg)
    return assembled(type(value), **(known | parts))


def field_values(value: Any) -> dict[str, object]:  # noqa: ANN401 - any dataclass instance
    """Return the fields of a dataclass instance by name; caches are no fields."""
    return {field.name: getattr(value, field.name) for field in fields(value)}
