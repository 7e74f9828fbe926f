"""The process in which SUMO runs: one simulation, driven by messages on its standard streams.

libsumo allows one simulation per process, warns beside another pyarrow than its own, and a crash of
it ends the process. So it runs here, alone; `superarm.simulation.process` speaks with it in pickled
messages. A vehicle asks for its route in the second in which it departs, is watched in every step,
and reports once it stands at its goal.
"""

import os
import pickle
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import IO, Any

_TYPE = "superarm"
_OTHERS = "others"
_PARKING = 1
_END_M = 0.5  # how far before the end of its last edge a vehicle stops
_PATIENCE_S = 900.0  # for a vehicle that finds no gap to depart into


def send(stream: IO[bytes], message: object) -> None:
    """Write one message."""
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(struct.pack("<Q", len(data)) + data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:  # noqa: ANN401 - messages are dicts of plain values
    """Read one message; EOFError if there is none any more."""
    head = stream.read(8)
    if len(head) < 8:  # noqa: PLR2004 - a length
        raise EOFError
    size = struct.unpack("<Q", head)[0]
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return pickle.loads(data)  # noqa: S301 - from our own parent or child


@dataclass
class Watched:
    """One vehicle under way, and what its log says so far.

    Attributes:
        route: ids of its edges.
        lengths: of these, each with the junction after it, in m.
        asked_s: when it wanted to depart.
        entered: the odometer at which each edge was entered.
        log: time, odometer, speed, energy so far and, if traced, x and y; one row per step.
    """

    route: list[str]
    lengths: list[float]
    asked_s: float
    departed_s: float = -1.0
    entered: list[float] = field(default_factory=list)
    log: list[tuple[float, ...]] = field(default_factory=list)
    energy_wh: float = 0.0
    place: int = -1

    def note(self, place: int, odometer: float, along: float) -> None:
        """Note which edge of the route it is on, and how far along it is.

        Args:
            place: of the edge in the route; between two edges still that of the first.
            odometer: distance driven, in m.
            along: distance from where that edge begins.
        """
        before = self.log[-1][1] if self.log else 0.0
        if place == self.place:
            return
        begin = odometer - along
        if self.place < 0:
            begin = 0.0
        skipped = list(range(self.place + 1, place))
        back = [begin]
        for edge in reversed(skipped):  # shorter than a step
            back.append(back[-1] - self.lengths[edge])
        self.entered += [max(value, before) if self.place >= 0 else 0.0 for value in back[::-1]]
        self.place = place


class _Queue:
    """Who departs next."""

    def __init__(self, trips: list[tuple[str, float]], cars: list[tuple[float, list[str]]]) -> None:
        """Sort by departure, the last one first."""
        self.trips = sorted(trips, key=lambda trip: -trip[1])
        self._cars = sorted(cars, key=lambda car: -car[0])
        self.departed = 0

    def trips_due(self, clock: float) -> list[str]:
        """Return the names of trips that depart now."""
        due = []
        while self.trips and self.trips[-1][1] <= clock:
            due.append(self.trips.pop()[0])
        return due

    def cars_due(self, clock: float) -> list[tuple[int, list[str]]]:
        """Return number and route of other cars that depart now."""
        due = []
        while self._cars and self._cars[-1][0] <= clock:
            due.append((self.departed, self._cars.pop()[1]))
            self.departed += 1
        return due


class Simulation:
    """SUMO with one network loaded."""

    def __init__(self, options: dict[str, Any]) -> None:
        """Load everything; `options` are those of `superarm.simulation.process.Settings`."""
        sys.modules["pyarrow"] = None  # type: ignore[assignment] # libsumo brings its own
        import libsumo  # noqa: PLC0415 - here, and nowhere else

        self._sumo = libsumo
        self._step = float(options["step_s"])
        self._trace = bool(options["trace"])
        self._most_s = float(options["most_trip_s"])
        self._lengths: dict[str, float] = {}
        self._lanes: dict[str, int] = {}
        self._after: dict[str, dict[str, float]] = {}
        self._routes = 0
        self._kind = str(options["vehicle_class"])
        arguments = ["sumo", "-n", options["network"], "--step-length", str(self._step)]
        arguments += ["--seed", str(options["seed"]), "--no-step-log", "--no-warnings"]
        arguments += ["--time-to-teleport", str(options["jam_s"]), "--duration-log.disable"]
        arguments += ["--additional-files", options["types"], "--collision.action", "warn"]
        arguments += ["--xml-validation", "never", "--xml-validation.net", "never"]
        libsumo.start(arguments)
        self.version = str(libsumo.getVersion()[1])
        if options["state"]:
            libsumo.simulation.saveState(options["state"])
        self._state = options["state"]

    def length(self, edge: str) -> float:
        """Return the length of an edge, in m."""
        if edge not in self._lengths:
            self._lengths[edge] = float(self._sumo.lane.getLength(f"{edge}_0"))
        return self._lengths[edge]

    def lane(self, edge: str) -> int:
        """Return the rightmost lane of an edge that the vehicle may use; -1 if there is none."""
        if edge not in self._lanes:
            lanes = range(self._sumo.edge.getLaneNumber(edge))
            self._lanes[edge] = -1
            for number in lanes:
                allowed = self._sumo.lane.getAllowed(f"{edge}_{number}")
                if not allowed or self._kind in allowed:
                    self._lanes[edge] = number
                    break
        return self._lanes[edge]

    def after(self, edge: str) -> dict[str, float]:
        """Return the edges that a turn leads to from an edge, and the lengths of these turns."""
        if edge not in self._after:
            found: dict[str, float] = {}
            for number in range(self._sumo.edge.getLaneNumber(edge)):
                for link in self._sumo.lane.getLinks(f"{edge}_{number}"):
                    target = link[0].rpartition("_")[0]
                    found[target] = min(float(link[7]), found.get(target, float("inf")))
            self._after[edge] = found
        return self._after[edge]

    def _lengths_of(self, route: list[str]) -> list[float]:
        """Return the lengths of edges, each with the turn after it."""
        turns = [self.after(edge).get(then, 0.0) for edge, then in pairwise(route)]
        return [self.length(edge) + turn for edge, turn in zip(route, [*turns, 0.0], strict=True)]

    def day(self, order: dict[str, Any], ask: Callable[[list[str], float], list[Any]]) -> Any:  # noqa: ANN401
        """Drive all trips of a day; yield what happens, finish with sums.

        Args:
            order: with ``begin_s``, ``trips`` (id, departure), ``others`` (departure, edges) and
                ``number``.
            ask: gives routes for the vehicles that depart now.
        """
        sumo = self._sumo
        if self._state:
            sumo.simulation.loadState(self._state)
        self._clear()
        offset = float(sumo.simulation.getTime()) - order["begin_s"]
        queue = _Queue(order["trips"], order["others"])
        under_way: dict[str, Watched] = {}
        steps = jammed = refused = 0
        while queue.trips or under_way:
            clock = float(sumo.simulation.getTime()) - offset
            for number, route in queue.cars_due(clock):
                refused += not self._add_other(f"o{order['number']}.{number}", route)
            if due := queue.trips_due(clock):
                for name, route in zip(due, ask(due, clock), strict=True):
                    if problem := self._depart(name, route):
                        yield {"failed": name, "reason": problem}
                    else:
                        under_way[name] = Watched(list(route), self._lengths_of(route), clock)
            sumo.simulationStep()
            steps += 1
            clock = float(sumo.simulation.getTime()) - offset
            jumped = set(sumo.simulation.getStartingTeleportIDList())
            jammed += len(jumped)
            here = set(sumo.vehicle.getIDList())
            for name in list(under_way):
                end = self._watch(name, under_way[name], clock, here, jumped)
                if end is not None:
                    del under_way[name]
                    yield end
        self._clear()
        yield {
            "done": True,
            "steps": steps,
            "jammed": jammed,
            "refused": refused,
            "others": queue.departed - refused,
        }

    def _clear(self) -> None:
        sumo = self._sumo
        for name in (*sumo.vehicle.getIDList(), *sumo.simulation.getPendingVehicles()):
            with suppress(sumo.TraCIException):
                sumo.vehicle.remove(name)

    def _refusal(self, route: list[str]) -> str | None:
        """Return why a route cannot be driven, if it cannot."""
        if not route:
            return "it was given no route"
        if route[-1] in route[:-1]:
            return f"its route passes its goal {route[-1]!r} before its end"
        for before, edge in pairwise(["", *route]):
            try:
                lane = self.lane(edge)
            except self._sumo.TraCIException:
                return f"SUMO knows no edge {edge!r}"
            if lane < 0:
                return f"a {self._kind} may not drive on edge {edge!r}"
            if before and edge not in self.after(before):
                return f"no legal turn of its route leads from edge {before!r} to {edge!r}"
        return None

    def _depart(self, name: str, route: Any) -> str | None:  # noqa: ANN401 - from outside
        """Let a vehicle depart; return what is in the way, if anything is."""
        sumo = self._sumo
        if problem := self._refusal(route):
            return problem
        self._routes += 1
        number = f"r{self._routes}"
        try:
            sumo.route.add(number, list(route))
            sumo.vehicle.add(
                name, number, typeID=_TYPE, depart="now", departLane="best", departPos="0",
                departSpeed="0",
            )  # fmt: skip
            last = route[-1]
            end = max(self.length(last) - _END_M, 0.1)
            # it stands at its goal, or kinetic energy would be credited
            sumo.vehicle.setStop(name, last, end, self.lane(last), duration=1e6, flags=_PARKING)
        except sumo.TraCIException as error:
            with suppress(sumo.TraCIException):
                sumo.vehicle.remove(name)
            return f"SUMO refuses the route: {error}"
        return None

    def _add_other(self, name: str, route: list[str]) -> bool:
        """Let another car depart; say whether SUMO took it."""
        sumo = self._sumo
        try:
            if any(then not in self.after(edge) for edge, then in pairwise(route)):
                return False
            sumo.route.add(name, route)
            sumo.vehicle.add(
                name, name, typeID=_OTHERS, depart="now", departLane="best",
                departPos="random_free", departSpeed="max",
            )  # fmt: skip
        except sumo.TraCIException:  # a demand of one's own may hold routes that do not fit
            return False
        return True

    def _problem(
        self, name: str, one: Watched, clock: float, here: set[str], jumped: set[str]
    ) -> str | None:
        """Return why a trip has failed, if it has."""
        if name in jumped:
            return "it stood in a jam for so long that SUMO took it out"
        if name not in here and one.departed_s >= 0:
            return "SUMO lost it on the way"
        if name not in here and clock - one.asked_s > _PATIENCE_S:
            return f"no gap to depart into for {_PATIENCE_S:.0f} s"
        if clock - one.asked_s > self._most_s:
            return f"it was under way for more than {self._most_s:.0f} s"
        return None

    def _watch(
        self, name: str, one: Watched, clock: float, here: set[str], jumped: set[str]
    ) -> dict[str, Any] | None:
        """Write the log of one vehicle on; return its end, if this is it."""
        sumo = self._sumo
        if problem := self._problem(name, one, clock, here, jumped):
            with suppress(sumo.TraCIException):
                sumo.vehicle.remove(name)
            return {"failed": name, "reason": problem}
        if name not in here:
            return None
        vehicle = sumo.vehicle
        if one.departed_s < 0:
            one.departed_s = clock
        else:
            one.energy_wh += vehicle.getElectricityConsumption(name) * self._step
        road = vehicle.getRoadID(name)
        odometer = max(float(vehicle.getDistance(name)), one.log[-1][1] if one.log else 0.0)
        along, place = (
            float(vehicle.getLanePosition(name)),
            max(int(vehicle.getRouteIndex(name)), 0),
        )
        if road.startswith(":"):  # in the junction after that edge
            along += self.length(one.route[place])
        one.note(place, odometer, along)
        speed = float(vehicle.getSpeed(name))
        where = map(float, vehicle.getPosition(name)) if self._trace else ()
        one.log.append((clock, odometer, speed, one.energy_wh, *where))
        if not vehicle.isStoppedParking(name):
            return None
        vehicle.remove(name)
        return {
            "arrived": name,
            "route": one.route,
            "entered_m": one.entered,
            "log": one.log,
            "asked_s": one.asked_s,
        }


def main() -> None:
    """Serve the messages of the parent until its stream ends."""
    source, target = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what SUMO prints must not mix with messages
    try:
        simulation = Simulation(receive(source))
    except EOFError:
        return
    except Exception as error:  # noqa: BLE001 - told to the parent
        send(target, {"error": f"{type(error).__name__}: {error}"})
        return
    send(target, {"ready": simulation.version})

    def ask(names: list[str], clock: float) -> list[Any]:
        send(target, {"ask": names, "clock_s": clock})
        return list(receive(source))

    with suppress(EOFError, BrokenPipeError):
        while True:
            order = receive(source)
            try:
                for event in simulation.day(order, ask):
                    send(target, event)
            except (EOFError, BrokenPipeError):
                raise
            except Exception as error:  # noqa: BLE001 - told to the parent
                send(target, {"error": f"{type(error).__name__}: {error}"})
                return


if __name__ == "__main__":
    main()
