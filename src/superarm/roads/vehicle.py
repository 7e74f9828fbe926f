"""Electric vehicles, as far as their energy and the roads open to them depend on it."""

import json
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from superarm.arrays import require_positive

__all__ = ["CLASSES", "Vehicle"]

COMFORT_C = (18.0, 24.0)
"""Temperatures of the air between which nobody heats or cools."""

HEATING_W, COOLING_W = 90.0, 60.0
"""What a car's heating and cooling take per degree beyond: 1.6 kW when it freezes."""

COLDEST_C, HOTTEST_C = -60.0, 60.0
_USUAL_K, _ZERO_K = 293.15, 273.15


@dataclass(frozen=True)
class Vehicle:
    """An electric vehicle as it is driven, with its load and the air around it.

    The defaults are the paper's (appendix B.3). Vehicles of equal numbers are equal, so that one
    can be the key of what is computed of it.

    The paper does not have its last three parameters. What its rotating parts add to its mass, and
    what its lights and heating take, count only where speeds and times are known; its height says
    under which bridges it fits.
    """

    mass_kg: float = 1830.0
    rolling_resistance: float = 0.01
    front_area_m2: float = 2.6
    drag_coefficient: float = 0.35
    powertrain_efficiency: float = 0.98
    recuperation_efficiency: float = 0.96
    gravity: float = 9.82
    air_density: float = 1.2
    rotating_mass_kg: float = 0.0
    auxiliary_power_w: float = 0.0
    height_m: float = 1.5

    def __post_init__(self) -> None:
        """Refuse what no vehicle has."""
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in ("rotating_mass_kg", "auxiliary_power_w") or value != 0:
                require_positive(field.name, value)
        for name in ("powertrain_efficiency", "recuperation_efficiency"):
            if getattr(self, name) > 1:
                msg = f"{name} must not exceed 1, got {getattr(self, name)}"
                raise ValueError(msg)

    def loaded(self, payload_kg: float) -> "Vehicle":
        """Return the vehicle with so much more on board."""
        if not payload_kg >= 0:
            msg = f"payload_kg must not be negative, got {payload_kg}"
            raise ValueError(msg)
        return replace(self, mass_kg=self.mass_kg + payload_kg)

    def at_temperature(self, celsius: float) -> "Vehicle":
        """Return the vehicle in air of this temperature: denser when cold, and heated or cooled.

        Of a car heating takes `HEATING_W` and cooling `COOLING_W` per degree that the air is away
        from what is comfortable; of others in proportion to their front.

        >>> cold = Vehicle().at_temperature(0.0)
        >>> round(cold.auxiliary_power_w), round(cold.air_density, 3)
        (1620, 1.288)
        """
        if not COLDEST_C <= celsius <= HOTTEST_C:
            msg = f"air has from {COLDEST_C} to {HOTTEST_C} degrees Celsius, got {celsius}"
            raise ValueError(msg)
        low, high = COMFORT_C
        power = HEATING_W * max(low - celsius, 0.0) + COOLING_W * max(celsius - high, 0.0)
        power *= self.front_area_m2 / Vehicle.front_area_m2
        density = self.air_density * (_USUAL_K / (celsius + _ZERO_K))
        return replace(self, auxiliary_power_w=self.auxiliary_power_w + power, air_density=density)

    @property
    def class_name(self) -> str | None:
        """Which of `CLASSES` it is, if it is one of them."""
        return next((name for name, vehicle in CLASSES.items() if vehicle == self), None)

    def to_json(self) -> str:
        """Return its class name, or all its numbers as a JSON object with sorted keys.

        >>> Vehicle().to_json(), Vehicle(mass_kg=2000.0).to_json()[:41]
        ('car', '{"air_density":1.2,"auxiliary_power_w":0.')
        """
        numbers = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return self.class_name or numbers

    @classmethod
    def from_json(cls, text: str) -> "Vehicle":
        """Return the vehicle of a class name or of a JSON object; what it lacks is the paper's.

        Args:
            text: as `to_json` returns it.

        >>> Vehicle.from_json('{"mass_kg": 2000}').mass_kg
        2000.0

        Raises:
            ValueError: if the text is neither, or no vehicle has such numbers.
        """
        if text in CLASSES:
            return CLASSES[text]
        names = ", ".join(field.name for field in fields(cls))
        try:
            numbers: dict[str, Any] = json.loads(text)
            return cls(**{name: float(number) for name, number in numbers.items()})
        except (AttributeError, TypeError, json.JSONDecodeError) as error:
            msg = f"{text[:80]!r} is no vehicle: give {', '.join(CLASSES)}, or numbers of {names}"
            raise ValueError(msg) from error


CLASSES: dict[str, Vehicle] = {
    "car": Vehicle(),
    "van": Vehicle(mass_kg=3500.0, front_area_m2=4.6, drag_coefficient=0.4, height_m=2.6),
    "truck": Vehicle(
        mass_kg=18_000.0,
        rolling_resistance=0.007,
        front_area_m2=9.2,
        drag_coefficient=0.6,
        height_m=4.0,
    ),
}
"""Vehicle classes by name; the first is the reference."""
