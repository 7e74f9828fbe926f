"""A simulation in a process of its own, and what it is told."""

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from xml.sax.saxutils import quoteattr

import numpy as np

from superarm.errors import SuperarmError
from superarm.roads.vehicle import Vehicle
from superarm.simulation.simulator import receive, send

KNOWN_VERSIONS = (1, 20)
"""From this version of SUMO on its parameters have the names that are used here."""

_PATIENCE_S = 10.0


class SimulationError(SuperarmError):
    """The simulator cannot do what is asked, or has died."""


@dataclass(frozen=True)
class Settings:
    """How to simulate.

    Attributes:
        seed: of the simulator: drivers who dawdle, lanes they choose.
        step_s: length of a step.
        trace: whether to note where vehicles are in every step.
        jam_s: after how long SUMO takes a vehicle out that cannot move; its trip has failed.
        most_trip_s: after how long a trip has failed.
        radial_drag: friction in bends, which our own physics do not know.
        imperfection: of the driver, SUMO's sigma from 0 to 1: how much speed is left unused.
        resets: whether every day begins from the same state of lights; chance goes on.
    """

    seed: int = 0
    step_s: float = 1.0
    trace: bool = False
    jam_s: float = 300.0
    most_trip_s: float = 7200.0
    radial_drag: float = 0.1
    imperfection: float = 0.5
    resets: bool = True


@dataclass(frozen=True)
class Arrived:
    """A vehicle stands at its goal: what SUMO says of it."""

    name: str
    entered_m: list[float]
    log: list[tuple[float, ...]]


@dataclass(frozen=True)
class Failed:
    """A trip that was not finished, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class DayDone:
    """What a simulated day took."""

    steps: int
    jammed: int
    others: int
    refused: int = 0


Event = Arrived | Failed | DayDone


def vehicle_type(vehicle: Vehicle, settings: Settings) -> str:
    """Return SUMO's description of a vehicle with every parameter of its energy model explicit.

    SUMO's defaults differ between versions, so that none is left to it. Its air has 1.2041 kg per
    cubic metre and its gravity is 9.81; area and mass make up for that where they can: drag is the
    same, weight is off by a thousandth.
    """
    parameters = {
        "has.battery.device": "true",
        "device.battery.capacity": 1e9,
        "device.battery.chargeLevel": 5e8,
        "device.battery.maximumChargeRate": 150_000,
        "maximumPower": 150_000,
        "frontSurfaceArea": vehicle.front_area_m2 * vehicle.air_density / 1.2041,
        "airDragCoefficient": vehicle.drag_coefficient,
        "rotatingMass": vehicle.rotating_mass_kg,
        "radialDragCoefficient": settings.radial_drag,
        "rollDragCoefficient": vehicle.rolling_resistance,
        "constantPowerIntake": vehicle.auxiliary_power_w,
        "propulsionEfficiency": vehicle.powertrain_efficiency,
        "recuperationEfficiency": vehicle.recuperation_efficiency,
        "recuperationEfficiencyByDeceleration": 0,
        "stoppingThreshold": 0.1,
    }
    inner = "".join(
        f"<param key={quoteattr(name)} value={quoteattr(str(value))}/>"
        for name, value in parameters.items()
    )
    return (
        f'<vType id="superarm" vClass="passenger" emissionClass="Energy" '
        f'mass="{vehicle.mass_kg}" sigma="{settings.imperfection}" speedFactor="1" speedDev="0">'
        f"{inner}</vType>"
    )


@dataclass(eq=False)
class Simulator:
    """A child process with SUMO in it; use it as a context."""

    network: Path
    vehicle: Vehicle
    settings: Settings = field(default_factory=Settings)
    version: str = ""
    _child: subprocess.Popen[bytes] | None = None
    _folder: Any = None
    _days: int = 0

    def start(self) -> None:
        """Start the process and load the network, which may take seconds."""
        require_extra()
        self._folder = tempfile.TemporaryDirectory(prefix="superarm-sumo-")
        folder = Path(self._folder.name)
        types = folder / "types.add.xml"
        others = '<vType id="others" vClass="passenger" speedDev="0.1" sigma="0.5"/>'
        mine = vehicle_type(self.vehicle, self.settings)
        types.write_text(f"<additional>{mine}{others}</additional>")
        options = {
            "network": str(self.network),
            "types": str(types),
            "state": str(folder / "begin.xml") if self.settings.resets else "",
            "vehicle_class": "passenger",
            **vars(self.settings),
        }
        # it warns beside another pyarrow than its own, which is not loaded there
        environment = os.environ | {"LIBSUMO_AS_TRACI": "quiet"}
        with (folder / "log.txt").open("wb") as log:
            self._child = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, str(Path(__file__).with_name("simulator.py"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
            )
        try:
            self._send(options)
            answer = self._receive()
        except SimulationError:
            self.stop()
            raise
        self.version = str(answer["ready"])
        found = re.search(r"(\d+)[._](\d+)", self.version)
        if found is None or (int(found[1]), int(found[2])) < KNOWN_VERSIONS:
            self.stop()
            wanted = ".".join(map(str, KNOWN_VERSIONS))
            msg = (
                f"this is {self.version}; parameters of vehicles have the names used here from "
                f"SUMO {wanted} on: pip install --upgrade eclipse-sumo libsumo"
            )
            raise SimulationError(msg)

    def day(
        self,
        begin_s: float,
        trips: Sequence[tuple[str, float]],
        others: Sequence[tuple[float, list[str]]],
        ask: Callable[[list[str], float], list[list[str]]],
    ) -> Iterator[Event]:
        """Simulate one day and yield what happens; it ends with `DayDone`.

        Args:
            begin_s: second of the day at which it begins.
            trips: name and departure of each vehicle that asks for routes.
            others: departure and route of every other one.
            ask: called with the names of vehicles that depart and the time; returns their routes.
        """
        self._days += 1
        order = {"begin_s": begin_s, "trips": list(trips), "others": list(others)}
        self._send({**order, "number": self._days})
        finished = False
        try:
            while True:
                match self._receive():
                    case {"ask": names, "clock_s": clock}:
                        self._send(ask(names, clock))
                    case {"arrived": name, "entered_m": entered, "log": log}:
                        yield Arrived(name, entered, log)
                    case {"failed": name, "reason": reason}:
                        yield Failed(name, reason)
                    case {"done": True, **sums}:
                        finished = True
                        yield DayDone(**sums)
                        return
        finally:
            if not finished:  # whoever asked has lost interest: a half finished day helps nobody
                self.stop()

    def stop(self) -> None:
        """End the process, whatever it does."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            for stream in (self._child.stdin, self._child.stdout):
                if stream is not None:
                    with suppress(OSError):  # what was not sent is not missed
                        stream.close()
            self._child = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    @property
    def is_alive(self) -> bool:
        """Whether it can be asked for another day."""
        return self._child is not None and self._child.poll() is None

    @property
    def pid(self) -> int:
        """Of its process."""
        if self._child is None:
            msg = "the simulator is not running: start it first"
            raise SimulationError(msg)
        return self._child.pid

    def _send(self, message: object) -> None:
        if self._child is None or self._child.stdin is None:
            msg = "the simulator is not running: start it first"
            raise SimulationError(msg)
        try:
            send(self._child.stdin, message)
        except OSError as error:
            raise SimulationError(self._death()) from error

    def _receive(self) -> dict[str, Any]:
        assert self._child is not None  # noqa: S101 - has been sent to
        assert self._child.stdout is not None  # noqa: S101
        try:
            answer: dict[str, Any] = receive(self._child.stdout)
        except EOFError as error:
            raise SimulationError(self._death()) from error
        if "error" in answer:
            msg = f"SUMO says: {answer['error']}{self._log()}"
            raise SimulationError(msg)
        return answer

    def _death(self) -> str:
        code = None
        if self._child is not None:
            try:
                code = self._child.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._child.kill()
                code = self._child.wait()
        return f"the simulator died (exit status {code}){self._log()}"

    def _log(self) -> str:
        if self._folder is None:
            return ""
        try:
            text = (Path(self._folder.name) / "log.txt").read_text(errors="replace").strip()
        except OSError:
            return ""
        return f"; it had printed: {' '.join(text[-600:].split())}" if text else ""

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self.stop()


def require_extra() -> None:
    """Say what to install where SUMO is missing."""
    if importlib.util.find_spec("libsumo") is None:
        msg = "simulations need SUMO: pip install 'superarm[simulation]'"
        raise SimulationError(msg)


def as_log(log: list[tuple[float, ...]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the rows of a log as an array."""
    return np.array(log, dtype=np.float64)
