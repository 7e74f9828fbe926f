"""Vehicles as clients name them: by class, or by parameters that a vehicle can have."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from superarm.roads.vehicle import CLASSES, COLDEST_C, HOTTEST_C, Vehicle

ClassName = Literal["car", "van", "truck"]
_MOST_UNKNOWN = 5
OTHER = "other"
"""The class of vehicles that are given by parameters."""


class Given(BaseModel):
    """What clients send: nothing beside what is known, no infinities."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _not_too_much(cls, given: Any) -> Any:  # noqa: ANN401 - whatever was sent
        """Refuse many unknown names at once, instead of complaining about each."""
        if isinstance(given, dict) and len(given) > len(cls.model_fields) + _MOST_UNKNOWN:
            unknown = sum(name not in cls.model_fields for name in given)
            msg = f"{unknown} names are not known here; known are {', '.join(cls.model_fields)}"
            raise ValueError(msg)
        return given


class Parameters(Given):
    """An electric vehicle by its physics; what is left out is as in the class `car`."""

    mass_kg: Annotated[float, Field(ge=100, le=100_000)] = 1830.0
    rolling_resistance: Annotated[float, Field(ge=0.001, le=0.1)] = 0.01
    front_area_m2: Annotated[float, Field(ge=0.1, le=30)] = 2.6
    drag_coefficient: Annotated[float, Field(ge=0.05, le=3)] = 0.35
    powertrain_efficiency: Annotated[float, Field(ge=0.3, le=1)] = 0.98
    recuperation_efficiency: Annotated[float, Field(ge=0.05, le=1)] = 0.96
    rotating_mass_kg: Annotated[float, Field(ge=0, le=10_000)] = 0.0
    auxiliary_power_w: Annotated[float, Field(ge=0, le=50_000)] = 0.0
    height_m: Annotated[float, Field(ge=0.5, le=10)] = 1.5

    def made(self) -> Vehicle:
        """Return the vehicle."""
        return Vehicle(**self.model_dump())


VehicleIn = Annotated[
    ClassName | Parameters, Field(description="A class by name, or the vehicle's parameters.")
]


def vehicle_of(given: ClassName | Parameters) -> Vehicle:
    """Return the vehicle meant."""
    return given.made() if isinstance(given, Parameters) else CLASSES[given]


def driven(
    vehicle: Vehicle, temperature_c: float | None = None, payload_kg: float | None = None
) -> Vehicle:
    """Return a vehicle as it is driven: in air of some temperature, with something on board.

    Whole degrees, and a load to ten kilogrammes: what is computed of a vehicle is remembered.
    """
    if payload_kg:
        vehicle = vehicle.loaded(round(payload_kg, -1))
    if temperature_c is not None:
        vehicle = vehicle.at_temperature(float(round(temperature_c)))
    return vehicle


Temperature = Annotated[
    float, Field(ge=COLDEST_C, le=HOTTEST_C, description="Of the air, in degrees Celsius.")
]
Payload = Annotated[float, Field(ge=0, le=50_000, description="On board, in kg, people included.")]


def class_of(vehicle: Vehicle) -> str:
    """Return the class of a vehicle."""
    return vehicle.class_name or OTHER
