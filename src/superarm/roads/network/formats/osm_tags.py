"""What tags of OpenStreetMap say about roads: speed, lanes, directions, access, restrictions."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from superarm.roads.network.access import CLOSED, ENDS_ONLY, FOR_CARS, FOR_TRUCKS, OPEN

SPEEDS_KMH: dict[str, float] = {
    "motorway": 120.0, "trunk": 90.0, "primary": 70.0, "secondary": 60.0, "tertiary": 50.0,
    "unclassified": 40.0, "residential": 30.0, "living_street": 10.0, "service": 20.0,
    "road": 40.0, "motorway_link": 60.0, "trunk_link": 50.0, "primary_link": 40.0,
    "secondary_link": 40.0, "tertiary_link": 30.0,
}  # fmt: skip
"""Roads of motor vehicles, and how fast they are where no limit is tagged."""

_LEVELS = {
    "yes": OPEN, "permissive": OPEN, "designated": OPEN, "official": OPEN, "public": OPEN,
    "destination": ENDS_ONLY, "delivery": ENDS_ONLY, "customers": ENDS_ONLY,
    "private": ENDS_ONLY, "permit": ENDS_ONLY, "residents": ENDS_ONLY,
    "no": CLOSED, "agricultural": CLOSED, "forestry": CLOSED, "emergency": CLOSED,
    "use_sidepath": CLOSED, "military": CLOSED, "psv": CLOSED, "bus": CLOSED, "taxi": CLOSED,
    "hov": CLOSED, "bicycle": CLOSED, "foot": CLOSED, "tram": CLOSED, "emergency_vehicles": CLOSED,
}  # fmt: skip
_CAR_KEYS = ("access", "vehicle", "motor_vehicle", "motorcar")
_TRUCK_KEYS = ("access", "vehicle", "motor_vehicle", "hgv")
_OPEN_BARRIERS = {
    "toll_booth", "border_control", "cattle_grid", "entrance", "kerb", "height_restrictor",
    "lift_gate", "gate", "swing_gate", "sally_port", "checkpoint", "no", "bump_gate",
}  # fmt: skip
_MPH, _FEET, _INCHES, _SHORT_TON = 1.609344, 0.3048, 0.0254, 0.90718474
_UNLIMITED_KMH, _WALK_KMH, _FASTEST_KMH, _SLOWEST_KMH = 130.0, 6.0, 150.0, 3.0
_MOST_LANES = 16
_LIGHTEST_HGV_T = 3.5


@dataclass(frozen=True)
class Rules:
    """One direction of a way."""

    cars: int
    trucks: int
    speed_kmh: float
    lanes: int
    most_t: float
    most_m: float
    toll: bool


@dataclass(frozen=True)
class Way:
    """A road of motor vehicles."""

    id: int
    nodes: tuple[int, ...]
    kind: str
    street: str
    bridged: bool
    forward: Rules
    backward: Rules


@dataclass(frozen=True)
class Forbidden:
    """A turn that is not allowed, or the only one that is.

    Attributes:
        source: way that is left.
        via: node.
        target: way that is entered.
        only: whether all other turns from the source there are forbidden instead.
        bits: for whom.
        round: whether it is about turning round alone.
    """

    source: int
    via: int
    target: int
    only: bool
    bits: int
    round: bool = False


def way_of(number: int, tags: Mapping[str, str], nodes: Sequence[int]) -> Way | None:
    """Return a way, nothing if it is no road of motor vehicles."""
    kind = tags.get("highway", "")
    if kind not in SPEEDS_KMH or tags.get("area") == "yes" or len(nodes) < 2:  # noqa: PLR2004
        return None
    direction = _direction(tags, kind)
    both = direction == 0
    rules = [_rules(tags, kind, way, both) for way in ("forward", "backward")]
    forward, backward = rules
    if direction > 0:
        backward = _shut(backward)
    elif direction < 0:
        forward = _shut(forward)
    if all((one.cars, one.trucks) == (CLOSED, CLOSED) for one in (forward, backward)):
        return None
    bridged = any(tags.get(key, "no") != "no" for key in ("bridge", "tunnel"))
    street = tags.get("name") or tags.get("ref") or ""
    return Way(number, _distinct(nodes), kind, street[:100], bridged, forward, backward)


def _distinct(nodes: Sequence[int]) -> tuple[int, ...]:
    """Return nodes without one that is named twice in a row."""
    return tuple(node for i, node in enumerate(nodes) if i == 0 or node != nodes[i - 1])


def _shut(rules: Rules) -> Rules:
    return replace(rules, cars=CLOSED, trucks=CLOSED)


def _direction(tags: Mapping[str, str], kind: str) -> int:
    """Return 1 for one way, -1 for one way against the nodes, 0 for both."""
    given = next(
        (tags[key] for key in ("oneway:motor_vehicle", "oneway:vehicle", "oneway") if key in tags),
        "",
    )
    if given in {"-1", "reverse"}:
        return -1
    if given in {"yes", "true", "1"}:
        return 1
    implied = kind == "motorway" or tags.get("junction") in {"roundabout", "circular"}
    return int(implied and given not in {"no", "false", "0"})


def _rules(tags: Mapping[str, str], kind: str, way: str, both: bool) -> Rules:  # noqa: FBT001
    cars, trucks = _level(tags, _CAR_KEYS, way), _level(tags, _TRUCK_KEYS, way)
    # who is lighter than this is none of those meant
    heavy = max(_smallest(tags, ("maxweight:hgv", "maxweightrating:hgv"), tons), _LIGHTEST_HGV_T)
    total = _smallest(tags, ("maxweight", "maxweightrating", "maxgcweight"), tons)
    return Rules(
        cars=cars,
        trucks=trucks,
        speed_kmh=_speed(tags, kind, way),
        lanes=_lanes(tags, way, both),
        most_t=min(total, heavy),
        most_m=_smallest(tags, ("maxheight", "maxheight:physical"), metres),
        toll=tags.get("toll") == "yes" or tags.get("toll:hgv") == "yes",
    )


def _level(tags: Mapping[str, str], keys: Sequence[str], way: str) -> int:
    """Return what a road is to vehicles of these keys: the most special one counts."""
    level = OPEN
    for key in keys:
        for name in (key, f"{key}:{way}"):
            if name in tags:
                values = [value.strip() for value in tags[name].split(";")]
                known = [_LEVELS[value] for value in values if value in _LEVELS]
                level = max(known, default=level)  # what is not understood changes nothing
    return level


def _speed(tags: Mapping[str, str], kind: str, way: str) -> float:
    for key in (f"maxspeed:{way}", "maxspeed"):
        found = kmh(tags.get(key, ""))
        if found is not None:
            return found
    return SPEEDS_KMH[kind]


def kmh(text: str) -> float | None:
    """Return a limit in km/h, nothing where the text is none (``ES:urban``, ``signals``)."""
    text = text.split(";", maxsplit=1)[0].strip().lower()
    if text == "none":
        return _UNLIMITED_KMH
    if text == "walk":
        return _WALK_KMH
    match = re.fullmatch(r"(\d{1,3}(?:\.\d+)?)\s*(km/h|kmh|kph|mph)?", text)
    if match is None:
        return None
    value = float(match[1]) * (_MPH if match[2] == "mph" else 1.0)
    return value if _SLOWEST_KMH <= value <= _FASTEST_KMH else None


def _lanes(tags: Mapping[str, str], way: str, both: bool) -> int:  # noqa: FBT001
    for key, share in ((f"lanes:{way}", 1), ("lanes", 2 if both else 1)):
        text = tags.get(key, "")
        if text.isdigit() and int(text) > 0:
            return min(max(int(text) // share, 1), _MOST_LANES)
    return 1


def _smallest(
    tags: Mapping[str, str], keys: Sequence[str], reading: Callable[[str], float]
) -> float:
    found = [reading(tags[key]) for key in keys if key in tags]
    return min(found, default=math.inf)


def tons(text: str) -> float:
    """Return a weight limit in t, infinite where there is none or it cannot be read."""
    match = re.fullmatch(r"(\d+(?:[.,]\d+)?)\s*(t|kg|st|lbs)?", text.strip().lower())
    if match is None:
        return math.inf
    units = {None: 1.0, "t": 1.0, "kg": 1e-3, "st": _SHORT_TON, "lbs": 0.45359237e-3}
    return float(match[1].replace(",", ".")) * units[match[2]]


def metres(text: str) -> float:
    """Return a height limit in m, infinite where there is none or it cannot be read."""
    text = text.strip().lower()
    match = re.fullmatch(r"(\d+(?:[.,]\d+)?)\s*(m|cm)?", text)
    if match is not None:
        value = float(match[1].replace(",", "."))
        return value / 100 if match[2] == "cm" else value
    feet = re.fullmatch(r"(\d+)\s*(?:'|ft)\s*(?:(\d+)\s*(?:\"|in)?)?", text)
    if feet is not None:
        return int(feet[1]) * _FEET + int(feet[2] or 0) * _INCHES
    return math.inf


def is_barrier(tags: Mapping[str, str]) -> bool:
    """Say whether no motor vehicle passes a node."""
    kind = tags.get("barrier")
    if kind is None:
        return False
    level = _level(tags, _CAR_KEYS, "forward")
    told = any(key in tags for key in _CAR_KEYS)
    return level < OPEN if told else kind not in _OPEN_BARRIERS


def restriction_of(
    tags: Mapping[str, str], members: Sequence[tuple[str, str, int]]
) -> tuple[list[Forbidden], int]:
    """Return the turns that a relation forbids, and 1 if it goes over ways and cannot be kept."""
    rules = [
        (bits, word)
        for bits, word in _rules_of(tags)
        if bits and word.startswith(("no_", "only_")) and not word.endswith("_on_red")
    ]
    if not rules:
        return [], 0
    sources = [ref for role, kind, ref in members if role == "from" and kind == "w"]
    targets = [ref for role, kind, ref in members if role == "to" and kind == "w"]
    via = [(kind, ref) for role, kind, ref in members if role == "via"]
    if len(via) != 1 or via[0][0] != "n":
        return [], int(bool(via))
    return [
        Forbidden(source, via[0][1], target, word.startswith("only_"), bits, word == "no_u_turn")
        for bits, word in rules
        for source in sources
        for target in targets
    ], 0


def _rules_of(tags: Mapping[str, str]) -> list[tuple[int, str]]:
    """Return for whom a restriction holds, and what it is: a rule of their own comes first."""
    spared = {part.strip() for part in tags.get("except", "").split(";")}
    rest = FOR_CARS | FOR_TRUCKS
    found = []
    for key, bit in (("restriction:hgv", FOR_TRUCKS), ("restriction:motorcar", FOR_CARS)):
        if key in tags:
            found.append((bit, tags[key]))
            rest &= ~bit
    if spared & {"motorcar", "motor_vehicle"}:
        rest &= ~FOR_CARS
    if spared & {"hgv", "goods", "motor_vehicle"}:
        rest &= ~FOR_TRUCKS
    if "restriction" in tags:
        found.append((rest, tags["restriction"]))
    return found
