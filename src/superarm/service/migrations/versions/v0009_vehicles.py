"""Vehicles given by parameters are stored by name, not by position."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

_POSITIONS = {
    "mass_kg": 1830.0,
    "rolling_resistance": 0.01,
    "front_area_m2": 2.6,
    "drag_coefficient": 0.35,
    "powertrain_efficiency": 0.98,
    "recuperation_efficiency": 0.96,
    "gravity": 9.82,
    "air_density": 1.2,
    "rotating_mass_kg": 0.0,
    "auxiliary_power_w": 0.0,
    "height_m": 1.5,
}
"""Names in their order until 0008, and what was meant where a list was shorter."""

_trips = sa.table("trips", sa.column("vehicle", sa.Text))


def upgrade() -> None:
    """Write lists as objects; what is no list of numbers stays, and makes no sense to anybody."""
    for text in _texts("["):
        try:
            numbers = [float(number) for number in json.loads(text)]
            named = _POSITIONS | dict(zip(_POSITIONS, numbers, strict=False))
        except (TypeError, ValueError):
            continue
        if len(numbers) <= len(_POSITIONS):
            _rewrite(text, json.dumps(named, sort_keys=True, separators=(",", ":")))


def downgrade() -> None:
    """Write objects as lists."""
    for text in _texts("{"):
        named = json.loads(text)
        if named.keys() == _POSITIONS.keys():
            _rewrite(text, json.dumps([named[name] for name in _POSITIONS]))


def _texts(begin: str) -> list[str]:
    """Return the different vehicles that begin like this: few, beside trips."""
    query = sa.select(_trips.c.vehicle).where(_trips.c.vehicle.startswith(begin)).distinct()
    return list(op.get_bind().execute(query).scalars())


def _rewrite(old: str, new: str) -> None:
    change = sa.update(_trips).where(_trips.c.vehicle == old).values(vehicle=new)
    op.get_bind().execute(change)
