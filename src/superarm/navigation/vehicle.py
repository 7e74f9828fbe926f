"""Electric vehicles, as far as their energy and the roads open to them depend on it."""

from dataclasses import dataclass, fields

from superarm.arrays import require_positive


@dataclass(frozen=True)
class Vehicle:
    """An electric vehicle and the air it drives in; the defaults are the paper's (appendix B.3).

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
