"""A fleet study as its TOML file declares it."""

import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError, field_validator, model_validator

from superarm.errors import DataError
from superarm.experiments.config import Name, Strict
from superarm.simulation import METHODS

FLEETS = Path(__file__).parent / "studies"
"""Where the package's own fleet studies are."""

LATER_S = 240.0
"""Seconds per car and second that traffic takes to build up, before trips depart."""

Seconds = Annotated[float, Field(ge=0, le=86_400)]


class Part(Strict):
    """A part of the day: other cars per second, and trips of the fleet.

    Attributes:
        name: ``peak``, ``off-peak``, ...
        begin_s: when it begins.
        end_s: when it ends.
        cars: other cars that depart per second.
        trips: of the fleet in it, every day.
    """

    name: Name
    begin_s: Seconds
    end_s: Seconds
    cars: Annotated[float, Field(ge=0, le=50)] = 0.0
    trips: Annotated[int, Field(ge=0, le=10_000)] = 0

    @model_validator(mode="after")
    def _forward(self) -> "Part":
        if self.end_s <= self.begin_s:
            msg = f"part {self.name!r} ends before it begins"
            raise ValueError(msg)
        if self.trips and LATER_S * self.cars >= self.end_s - self.begin_s:
            msg = (
                f"part {self.name!r} is too short for {self.cars} cars per second: trips depart "
                f"after {LATER_S * self.cars:.0f} s, when traffic has built up"
            )
            raise ValueError(msg)
        return self


class Driven(Strict):
    """What of the vehicle differs from the paper's car.

    Attributes:
        auxiliary_power_w: of heating and lights.
        recuperation_efficiency: of braking.
        mass_kg: of all.
    """

    auxiliary_power_w: Annotated[float, Field(ge=0, le=20_000)] = 0.0
    recuperation_efficiency: Annotated[float, Field(gt=0, le=1)] = 0.96
    mass_kg: Annotated[float, Field(ge=100, le=60_000)] = 1830.0


class FleetStudy(Strict):
    """Which city, which days, who is compared.

    Attributes:
        name: of the study and its folder.
        title: what to call it.
        network: ``city`` (generated), a network of the data folder, or a SUMO network file.
        edges: of a generated city.
        city: which one.
        worlds: how many; each has its own traffic, trips and chance.
        days: of every world.
        parts: of every day.
        methods: names of `superarm.simulation.METHODS`; the first is what others are compared with.
        equilibrium: rounds of SUMO's user assignment for the other cars.
        first_day: from which day on means are taken.
        seed: of everything.
        vehicle: what is driven; the paper's car, if nothing is said.
    """

    name: Name
    title: str = ""
    network: str = "city"
    edges: Annotated[int, Field(ge=500, le=100_000)] = 1000
    city: int = 0
    worlds: Annotated[int, Field(ge=1, le=1000)] = 10
    days: Annotated[int, Field(ge=1, le=1000)] = 20
    parts: tuple[Part, ...]
    methods: tuple[str, ...]
    equilibrium: Annotated[int, Field(ge=0, le=100)] = 0
    first_day: Annotated[int, Field(ge=1)] = 5
    seed: int = 0
    vehicle: Driven = Driven()

    @model_validator(mode="after")
    def _days_left(self) -> "FleetStudy":
        if self.first_day > self.days:
            msg = f"first_day = {self.first_day} comes after the last of {self.days} days"
            raise ValueError(msg)
        return self

    @field_validator("methods")
    @classmethod
    def _known(cls, methods: tuple[str, ...]) -> tuple[str, ...]:
        unknown = [name for name in methods if name not in METHODS]
        if unknown or not methods or len(set(methods)) < len(methods):
            msg = f"name methods once each, of {METHODS}; got {methods}"
            raise ValueError(msg)
        return methods

    @field_validator("parts")
    @classmethod
    def _in_order(cls, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        if not any(part.trips for part in parts):
            msg = "no part of the day has trips"
            raise ValueError(msg)
        for first, second in pairwise(parts):
            if second.begin_s < first.end_s:
                msg = f"parts {first.name!r} and {second.name!r} overlap, or are not in order"
                raise ValueError(msg)
        return parts


def find_fleet_study(name: str) -> Path:
    """Return the file of a study: a path, or a name of the package's own."""
    path = Path(name)
    own = FLEETS / f"{name}.toml"
    if path.suffix != ".toml" and own.is_file():
        return own
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in FLEETS.glob("*.toml")))
        msg = f"there is no file {name}, and no fleet study of that name; there are {known}"
        raise DataError(msg)
    return path


def is_fleet_study(name: str) -> bool:
    """Say whether a name or a file is that of a fleet study: its days have parts."""
    path = Path(name)
    if path.suffix != ".toml":
        return (FLEETS / f"{name}.toml").is_file()
    try:
        return "parts" in tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return False  # whoever reads it as another study says what is wrong


def read_fleet_study(name: str) -> FleetStudy:
    """Read a study; errors name the key and what is allowed."""
    path = find_fleet_study(name)
    try:
        return FleetStudy.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        msg = f"{path} is no TOML file: {error}"
        raise DataError(msg) from error
    except ValidationError as error:
        told = "; ".join(
            f"{'.'.join(map(str, part['loc']))}: {part['msg']}" for part in error.errors()
        )
        msg = f"{path}: {told}"
        raise DataError(msg) from error
