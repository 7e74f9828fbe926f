"""An experiment as its TOML file declares it: frozen models, where every unknown key is an error.

Errors name the key and what is allowed, all of them at once, before anything runs.
"""

import difflib
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)

from superarm.defaults import (
    SPARSE_BATCH,
    SPARSE_INDUCING,
    SPARSE_RATE,
    SPARSE_STEPS,
    STREAMING_INDUCING,
)
from superarm.errors import DataError
from superarm.roads.conventions import Efficiency, Rectify, Truth

Name: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")]
Traffic: TypeAlias = Literal["free", "closed-turns", "closed-edges", "congestion"]
Drift: TypeAlias = Literal["none", "jumps", "wanders"]
Adapting: TypeAlias = Literal["none", "hyper", "elimination", "refit"]
BeliefName: TypeAlias = Literal[
    "exact", "sparse", "streaming", "gp", "independent", "linear", "empirical", "partition"
]
PolicyName: TypeAlias = Literal[
    "ucb", "bucb", "ts", "joint-ts", "greedy", "srinivas", "russo", "oclok", "irgp", "pims",
    "count", "ridge", "fixed",
]  # fmt: skip
FigureName: TypeAlias = Literal[
    "regret", "beta", "lengthscale", "exploration", "networks", "time", "energy"
]
_OWN_PART = r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_.]*$"
Part: TypeAlias = Annotated[str, StringConstraints(pattern=_OWN_PART)]
T = TypeVar("T")

CITY_EDGES = 1000
"""The size of a generated city whose file does not say."""

POINTS, POINT_ROUTE = "points", "all"
"""What stands for the network and the route of points."""

RANDOM_ROUTE = re.compile(r"R\d{3}")
"""What random routes are called."""


def _as_tuple(value: Any) -> Any:  # noqa: ANN401 - whatever the file holds
    return value if isinstance(value, (list, tuple)) else (value,)


OneOrMore: TypeAlias = Annotated[tuple[T, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
"""A list in the file, or a single value for a list of one."""


Whole: TypeAlias = Annotated[int, Field(strict=True)]
"""A whole number; not true, not "7"."""

Number: TypeAlias = Annotated[float, Field(strict=True)]


class Strict(BaseModel):
    """A frozen model in which unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


Factors: TypeAlias = tuple[Annotated[Number, Field(gt=0)], ...]


class CandidateSettings(Strict):
    """Priors to choose among: the one assumed, and it with one thing at a time multiplied.

    Attributes:
        lengthscale: factors of the lengthscale.
        noise: factors of the deviation of a reward.
        variance: factors of the prior variance.
    """

    lengthscale: Factors = ()
    noise: Factors = ()
    variance: Factors = ()

    @model_validator(mode="after")
    def _some(self) -> "CandidateSettings":
        if not (self.lengthscale or self.noise or self.variance):
            msg = "name factors, as in candidates = { lengthscale = [0.25, 4.0] }"
            raise ValueError(msg)
        return self


class MethodSettings(Strict):
    """An agent: a belief and a policy, with their options.

    Attributes:
        belief: how the edges' costs are believed in; ``exact`` is the full Gaussian process,
            ``gp`` is ``exact`` where contexts are fixed and ``streaming`` where they change.
        policy: which index is computed from the posterior.
        rectify: what is learned and rectified, ``energy`` (the paper) or ``dissipation``.
        omega: exponent of the number of arms in the quantile of ``bucb``.
        xi: exponent of t in it.
        beta_factor: what beta_t of ``ucb`` and ``bucb`` is multiplied by.
        n_inducing: most inducing arms of a ``sparse`` or ``streaming`` belief.
        batch: observations in a natural-gradient step of ``sparse``.
        rate: of that step.
        steps: natural-gradient steps per round.
        adam_rate: if positive, also move the inducing contexts by Adam (needs the torch extra).
        width: of ``fixed``.
        lengthscale: that the belief assumes, if not the world's own.
        lengthscale_factor: what it assumes over what it would otherwise.
        noise_factor: likewise of the deviation of a reward.
        variance_factor: likewise of the prior variance.
        adapt: how the prior is chosen while playing: ``hyper`` (weighed by evidence, one drawn per
            round), ``elimination`` (those that fail are dropped) or ``refit`` (by evidence).
        candidates: the priors that ``hyper`` and ``elimination`` choose among.
        refit_every: rounds before the first fit of ``refit``.
        forget: what share of a reward's weight is left a round later.
        time_lengthscale: rounds over which the belief takes rewards to change.
        kernel: of the belief, ``"module:Name"``, if not the world's own.
        oracle: of the agent, ``"module:Name"``; regret is measured by an exact one.
        policy_options: of a policy ``"module:Name"``.
        kernel_options: of that kernel.
        oracle_options: of that oracle.
        delay: after how many more rounds feedback arrives.
        feedback_batch: feedback is read after every so many rounds only.

    Further beliefs are ``linear`` (Bayesian linear regression), ``empirical`` (averages and counts)
    and ``partition`` (adaptive discretisation); further policies are those of
    docs/explanation/algorithms.md.
    """

    belief: BeliefName = "exact"
    policy: Annotated[PolicyName | Part, Field(union_mode="left_to_right")] = "ts"
    rectify: Rectify = "energy"
    omega: Annotated[Number, Field(gt=0)] | None = None
    xi: Annotated[Number, Field(gt=0)] | None = None
    beta_factor: Annotated[Number, Field(gt=0)] | None = None
    n_inducing: Annotated[Whole, Field(ge=1)] | None = None
    batch: Annotated[Whole, Field(ge=1)] | None = None
    rate: Annotated[Number, Field(gt=0, le=1)] | None = None
    steps: Annotated[Whole, Field(ge=1)] | None = None
    adam_rate: Annotated[Number, Field(ge=0)] | None = None
    width: Annotated[Number, Field(ge=0)] | None = None
    lengthscale: Annotated[Number, Field(gt=0)] | None = None
    delay: Annotated[Whole, Field(ge=0)] = 0
    feedback_batch: Annotated[Whole, Field(ge=1)] = 1
    lengthscale_factor: Annotated[Number, Field(gt=0)] = 1.0
    noise_factor: Annotated[Number, Field(gt=0)] = 1.0
    variance_factor: Annotated[Number, Field(gt=0)] = 1.0
    adapt: Adapting = "none"
    candidates: CandidateSettings | None = None
    refit_every: Annotated[Whole, Field(ge=1)] | None = None
    forget: Annotated[Number, Field(gt=0, le=1)] | None = None
    time_lengthscale: Annotated[Number, Field(gt=0)] | None = None
    kernel: Part | None = None
    oracle: Part | None = None
    policy_options: dict[str, Any] = Field(default_factory=dict)
    kernel_options: dict[str, Any] = Field(default_factory=dict)
    oracle_options: dict[str, Any] = Field(default_factory=dict)

    _BELONGS: ClassVar[dict[str, tuple[str, dict[str, float]]]] = {
        "omega": ("policy", {"bucb": 1.0}),
        "xi": ("policy", {"bucb": 1.0}),
        "beta_factor": ("policy", {"ucb": 1.0, "bucb": 1.0}),
        "n_inducing": (
            "belief",
            {
                "sparse": SPARSE_INDUCING,
                "streaming": STREAMING_INDUCING,
                "gp": STREAMING_INDUCING,
            },
        ),
        "batch": ("belief", {"sparse": SPARSE_BATCH}),
        "rate": ("belief", {"sparse": SPARSE_RATE}),
        "steps": ("belief", {"sparse": SPARSE_STEPS}),
        "adam_rate": ("belief", {"sparse": 0.0}),
        "width": ("policy", {"fixed": 1.0}),
        "refit_every": ("adapt", {"refit": 10}),
    }
    """Which part every option belongs to, and what it is there if the file does not say."""

    @model_validator(mode="after")
    def _fits(self) -> "MethodSettings":
        for option, (part, defaults) in self._BELONGS.items():
            chosen = getattr(self, part)
            if getattr(self, option) is None and chosen in defaults:
                object.__setattr__(self, option, defaults[chosen])
            elif getattr(self, option) is not None and chosen not in defaults:
                msg = f"{option} goes with {part} = {' or '.join(map(repr, defaults))} only"
                raise ValueError(msg)
        if self.policy == "joint-ts" and self.belief == "independent":
            msg = (
                "policy = 'joint-ts' is policy = 'ts' with belief = 'independent'; write that, or "
                "choose one of the beliefs exact, sparse, streaming, gp"
            )
            raise ValueError(msg)
        if self.policy in ("joint-ts", "pims") and self.adam_rate:
            msg = f"policy = {self.policy!r} cannot be paired with adam_rate; set it to 0"
            raise ValueError(msg)
        self._require_fitting_belief()
        self._require_adaptable()
        self._require_own_options()
        return self

    def _require_adaptable(self) -> None:
        if (self.candidates is not None) != (self.adapt in ("hyper", "elimination")):
            msg = "candidates and adapt = 'hyper' or 'elimination' go together"
            raise ValueError(msg)
        changed = {
            "adapt": self.adapt != "none",
            "forget": self.forget is not None,
            "time_lengthscale": self.time_lengthscale is not None,
        }
        wanted = [name for name, is_changed in changed.items() if is_changed]
        if len(wanted) > 1:
            msg = f"{wanted[0]} and {wanted[1]} cannot be combined; choose one of them"
            raise ValueError(msg)
        if self.kernel is not None and self.lengthscale is not None:
            msg = "lengthscale is not that of a kernel of your own; use kernel_options"
            raise ValueError(msg)
        if wanted and self.belief != "exact":
            msg = f"{wanted[0]} goes with belief = 'exact' only"
            raise ValueError(msg)

    def _require_own_options(self) -> None:
        for part, options in (
            ("policy", self.policy_options),
            ("kernel", self.kernel_options),
            ("oracle", self.oracle_options),
        ):
            if options and part not in self.own_parts():
                msg = f"{part}_options go with {part} = 'module:Name' only"
                raise ValueError(msg)

    def own_parts(self) -> dict[str, str]:
        """Return the names of the user's own parts, by what they are."""
        named = {"policy": self.policy, "kernel": self.kernel, "oracle": self.oracle}
        return {part: name for part, name in named.items() if name is not None and ":" in name}

    def _require_fitting_belief(self) -> None:
        for policy, belief in (("count", "empirical"), ("ridge", "linear")):
            if self.policy == policy and self.belief != belief:
                msg = f"policy = {policy!r} goes with belief = {belief!r} only"
                raise ValueError(msg)
        if self.belief == "partition" and self.policy != "greedy":
            msg = "belief = 'partition' is an index already: it goes with policy = 'greedy' only"
            raise ValueError(msg)
        if self.belief == "empirical" and self.policy in ("ts", "joint-ts", "pims"):
            msg = (
                f"belief = 'empirical' has no posterior for policy = {self.policy!r} to draw from; "
                "allowed policies are count, greedy and those with a width"
            )
            raise ValueError(msg)

    def given(self, *names: str) -> dict[str, Any]:
        """Return options that belong to this method, by name."""
        return {name: getattr(self, name) for name in names}


class PointSettings(Strict):
    """Points in the unit cube of which some are chosen: a problem without roads.

    Attributes:
        arms: how many points.
        dimension: of the cube.
        offered: how many a round offers, on average (Poisson).
        chosen: how many are chosen of those.
        noise_variance: of one reward; the prior variance is one.
    """

    arms: Annotated[Whole, Field(ge=3, le=6000)] = 600
    dimension: Annotated[Whole, Field(ge=1)] = 3
    offered: Annotated[Whole, Field(ge=1)] = 100
    chosen: Annotated[Whole, Field(ge=1)] = 5
    noise_variance: Annotated[Number, Field(gt=0)] = 0.25

    @model_validator(mode="after")
    def _fits(self) -> "PointSettings":
        if not self.chosen <= self.offered <= self.arms:
            msg = "chosen must not exceed offered, nor offered the number of arms"
            raise ValueError(msg)
        return self


class StudyPlace(Strict):
    """A network with the routes driven on it, or points to choose from.

    Attributes:
        network: ``city`` (generated), the name of a network of the data folder (``luxembourg``,
            ``monaco``), or a file of the user's (.npz, .net.xml, .net.xml.gz), relative to the
            experiment's file.
        routes: names of routes, or a table of name = [start edge, goal edge].
        random_routes: how many more routes between random edges, named R001, R002, ...
        edges: size of a generated city.
        city: which city is generated.
        horizon: rounds on these routes, if not the experiment's.
        repeats: worlds on these routes, if not the experiment's.
        points: instead of a network, points to choose from.
        traffic: the kinds of traffic here, if not the world's.
    """

    network: Annotated[str, StringConstraints(min_length=1)] = POINTS
    points: PointSettings | None = None
    routes: tuple[Name, ...] | dict[Name, tuple[str, str]] = ()
    random_routes: Annotated[Whole, Field(ge=0, le=999)] = 0
    edges: Annotated[Whole, Field(ge=500, le=1_000_000)] | None = None
    city: Annotated[Whole, Field(ge=0)] | None = None
    horizon: Annotated[Whole, Field(ge=1)] | None = None
    repeats: Annotated[Whole, Field(ge=1)] | None = None
    traffic: OneOrMore[Traffic] | None = None

    @model_validator(mode="after")
    def _fits(self) -> "StudyPlace":
        if (self.network == POINTS) != (self.points is not None):
            msg = "name a network, or describe points = { arms = 600, chosen = 5 }, one of both"
            raise ValueError(msg)
        if self.points is not None:
            if self.random_routes or self.routes not in ((), (POINT_ROUTE,)):
                msg = "points have no routes; leave routes and random_routes out"
                raise ValueError(msg)
            object.__setattr__(self, "routes", (POINT_ROUTE,))
        if self.network != "city" and (self.edges is not None or self.city is not None):
            msg = "edges and city go with network = 'city' only"
            raise ValueError(msg)
        if not self.routes and not self.random_routes:
            msg = "name routes, or ask for random_routes"
            raise ValueError(msg)
        taken = [name for name in self.routes if RANDOM_ROUTE.fullmatch(name)]
        if taken:
            msg = f"routes: {taken[0]} is what random routes are called; choose another name"
            raise ValueError(msg)
        return self

    @property
    def generated(self) -> tuple[int, int]:
        """Size and number of the city, where the network is one."""
        return (self.edges or CITY_EDGES, self.city or 0)


class WorldSettings(Strict):
    """How worlds are drawn; every list is one more axis of the experiment.

    Attributes:
        truth: ``gp`` draws the energies from the prior, ``positive`` physically possible ones.
        lengthscale: of the feature kernels.
        traffic: ``free``, ``closed-turns``, ``closed-edges`` or ``congestion``.
        closed_share: which share of turns or edges is closed every round.
        efficiency: ``paper`` or ``physical``.
        drift: what becomes of the truth of points: ``none``, ``jumps`` to another, or ``wanders``.
        jump_every: rounds between jumps.
        memory: rounds after which a truth that wanders is correlated by 1/e with what it was.
    """

    truth: OneOrMore[Truth] = ("gp",)
    lengthscale: OneOrMore[Annotated[Number, Field(gt=0)]] = (1.0,)
    traffic: OneOrMore[Traffic] = ("free",)
    closed_share: Annotated[Number, Field(ge=0, lt=1)] = 0.05
    efficiency: Efficiency = "paper"
    drift: OneOrMore[Drift] = ("none",)
    jump_every: Annotated[Whole, Field(ge=1)] = 100
    memory: Annotated[Number, Field(gt=0)] = 100.0


class Experiment(Strict):
    """A whole study: every method on every route in every world, repeated."""

    name: Name
    title: str = ""
    seed: Annotated[Whole, Field(ge=0)] = 0
    horizon: Annotated[Whole, Field(ge=1)] = 500
    repeats: Annotated[Whole, Field(ge=1)] = 5
    places: tuple[StudyPlace, ...] = Field(min_length=1)
    world: WorldSettings = WorldSettings()
    methods: dict[Name, MethodSettings] = Field(default_factory=dict)
    figures: tuple[FigureName, ...] = ("regret",)

    @field_validator("places")
    @classmethod
    def _distinct(cls, places: tuple[StudyPlace, ...]) -> tuple[StudyPlace, ...]:
        seen: dict[str, tuple[int, int]] = {}
        for place in places:
            if seen.setdefault(place.network, place.generated) != place.generated:
                msg = f"network {place.network!r} is declared twice with different options"
                raise ValueError(msg)
        return places

    @model_validator(mode="after")
    def _possible(self) -> "Experiment":
        if not self.methods and set(self.figures) != {"networks"}:
            msg = "methods: name at least one (only figures = ['networks'] needs none)"
            raise ValueError(msg)
        if any(place.points is not None for place in self.places):
            self._require_plain_world()
        else:
            self._require_still_roads()
        kinds = {kind for place in self.places for kind in place.traffic or self.world.traffic}
        if "congestion" in kinds and set(self.world.truth) != {"gp"}:
            msg = "traffic = 'congestion' needs truth = 'gp'"
            raise ValueError(msg)
        if "congestion" in kinds:
            for name, method in self.methods.items():
                if method.belief in ("exact", "sparse", "linear", "partition"):
                    msg = (
                        f"methods.{name}.belief = {method.belief!r} cannot be paired with "
                        "traffic = 'congestion', where contexts are new every round; "
                        "allowed beliefs are gp, streaming, independent, empirical"
                    )
                    raise ValueError(msg)
        return self

    def _require_still_roads(self) -> None:
        if self.world.drift != ("none",):
            msg = "world.drift: only the truth of points may drift"
            raise ValueError(msg)
        timed = [name for name, method in self.methods.items() if method.time_lengthscale]
        if timed:
            msg = f"methods.{timed[0]}.time_lengthscale goes with points only"
            raise ValueError(msg)

    def _require_followable(self) -> None:
        """Refuse methods that do not know what to do with arms that come with their round."""
        for name, method in self.methods.items():
            if method.adapt != "none" or method.belief not in ("exact", "independent", "empirical"):
                what = "adapt" if method.adapt != "none" else "belief"
                msg = (
                    f"methods.{name}.{what} = {getattr(method, what)!r} cannot be paired with "
                    "world.drift; allowed are the beliefs exact, independent and empirical, with "
                    "forget or time_lengthscale, and no adapt"
                )
                raise ValueError(msg)

    def _require_plain_world(self) -> None:
        if any(place.points is None for place in self.places):
            msg = "places: roads and points have different units; declare a study of each"
            raise ValueError(msg)
        free = all((p.traffic or self.world.traffic) == ("free",) for p in self.places if p.points)
        if self.world.truth != ("gp",) or not free:
            msg = "points have truth = 'gp' and traffic = 'free' only (they are volatile anyway)"
            raise ValueError(msg)
        learned = {name for name, method in self.methods.items() if method.rectify != "energy"}
        if learned:
            msg = f"methods.{min(learned)}.rectify: points have nothing to rectify; leave it out"
            raise ValueError(msg)
        if set(self.world.drift) != {"none"}:
            self._require_followable()
        shown = {"exploration", "networks", "energy"} & set(self.figures)
        if shown:
            msg = f"figures: {min(shown)} needs roads, but a place has points"
            raise ValueError(msg)


STUDIES = Path(__file__).parent / "studies"
"""Where the studies lie that come with the package."""


def find_study(study: str | Path) -> Path:
    """Return the file of a study: a file of the user's, or the name of one of the package's."""
    file = Path(study)
    known = shipped_studies()
    return known[str(study)] if not file.is_file() and str(study) in known else file


def shipped_studies() -> dict[str, Path]:
    """Return the files of the studies that come with the package, by name."""
    files = sorted(STUDIES.glob("*.toml"))
    return {file.stem: file for file in files if file.stem != "routes"}


def read_experiment(path: str | Path) -> Experiment:
    """Read and check an experiment's file; every mistake is reported with its key.

    Args:
        path: the file, or the name of a study that comes with the package.
    """
    file = find_study(path)
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        names = [*shipped_studies(), *(str(near) for near in Path().glob("*.toml"))]
        near = difflib.get_close_matches(str(path), names, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        msg = f"{file}: no such file{hint}; `superarm experiment list` shows the package's studies"
        raise DataError(msg) from error
    except IsADirectoryError as error:
        msg = f"{file} is a folder; name a TOML file, or a study of `superarm experiment list`"
        raise DataError(msg) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        msg = f"{file} is no TOML: {error}"
        raise DataError(msg) from error
    try:
        return Experiment.model_validate(content)
    except ValidationError as error:
        found = error.errors()
        places = [mistake["loc"] for mistake in found]
        mistakes = "\n".join(
            f"  {_told(mistake)}"
            for mistake in found
            # a list that lost its wrong entries is not short for another reason
            if mistake["type"] != "too_short" or not _inside(mistake["loc"], places)
        )
        msg = f"{file} cannot be run:\n{mistakes}"
        raise DataError(msg) from error


def _inside(place: tuple[Any, ...], others: list[tuple[Any, ...]]) -> bool:
    return any(len(other) > len(place) and other[: len(place)] == place for other in others)


def _told(mistake: Any) -> str:  # noqa: ANN401 - pydantic's description of one error
    place = [part for part in mistake["loc"] if "[" not in str(part)]
    key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(
        "."
    )
    if mistake["type"] == "extra_forbidden":
        table, _, unknown = key.rpartition(".")
        allowed = ", ".join(_table_of(place[:-1]).model_fields)
        return f"{table}{': ' if table else ''}unknown key {unknown!r}; allowed are {allowed}"
    said = mistake["msg"].removeprefix("Value error, ")
    given = mistake["input"]
    if mistake["type"] in {"value_error", "missing"} or isinstance(given, (dict, list, tuple)):
        return f"{key}: {said}" if key else said
    return f"{key}: {said}, got {given!r}"


def _table_of(place: list[Any]) -> type[Strict]:
    """Return the model of a table of the file."""
    match place:
        case ["places", _, "points", *_]:
            return PointSettings
        case ["places", *_]:
            return StudyPlace
        case ["methods", _, "candidates", *_]:
            return CandidateSettings
        case ["methods", *_]:
            return MethodSettings
        case ["world", *_]:
            return WorldSettings
        case _:
            return Experiment
