"""Where runs execute: this process, a pool of processes, or a Ray cluster.

Every engine takes runs and yields their outcomes as they finish. A run that raises is an outcome;
a worker that dies is replaced and its run tried again.
"""

import contextlib
import importlib
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.connection import wait as wait_for
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from superarm.errors import SuperarmError
from superarm.roads.network.network import RoadNetwork

ATTEMPTS = 3
"""How often a run is started whose worker dies."""

Networks: TypeAlias = Mapping[str, RoadNetwork | None]
"""Networks by fingerprint; none for points."""


@dataclass(frozen=True, eq=False)
class Failure:
    """A run that raised, with its traceback."""

    trace: str


class Spec(Protocol):
    """What a run depends on."""

    @property
    def fingerprint(self) -> str:
        """Which network it is on."""
        ...


S = TypeVar("S", bound=Spec)
R = TypeVar("R")


@dataclass(frozen=True)
class Work(Generic[S, R]):
    """How a run is executed: a function of its module's top level, which workers can import."""

    execute: Callable[[S, RoadNetwork | None], R]


class Engine(Protocol):
    """A place where runs execute."""

    def run(
        self, specs: Sequence[S], networks: Networks, work: Work[S, R]
    ) -> Iterator[tuple[S, R | Failure]]:
        """Yield every run with its outcome, in any order."""
        ...


def attempt(spec: S, network: RoadNetwork | None, work: Work[S, R]) -> R | Failure:
    """Execute a run; what it raises is its outcome, so that other runs go on."""
    try:
        return work.execute(spec, network)
    except Exception:  # noqa: BLE001 - recorded with its traceback, whatever it is
        return Failure(traceback.format_exc())


@dataclass(frozen=True)
class ThisProcess:
    """One run after the other, here."""

    def run(
        self, specs: Sequence[S], networks: Networks, work: Work[S, R]
    ) -> Iterator[tuple[S, R | Failure]]:
        """Yield every run with its outcome."""
        for spec in specs:
            outcome: R | Failure = attempt(spec, networks[spec.fingerprint], work)
            yield spec, outcome


@dataclass(frozen=True)
class Processes:
    """A pool of processes on this machine, each on one thread.

    When a worker dies, nobody can say which of the runs in flight it was working on. They are tried
    again one at a time, so that only a run whose worker dies alone is blamed for it.
    """

    jobs: int

    def run(
        self, specs: Sequence[S], networks: Networks, work: Work[S, R]
    ) -> Iterator[tuple[S, R | Failure]]:
        """Yield every run with its outcome, as they finish."""
        waiting = list(specs)
        while waiting:
            suspects: list[S] = []
            yield from self._with_pool(waiting, suspects, networks, self.jobs, work)
            for spec in suspects:
                yield from self._alone(spec, networks, work)

    def _alone(
        self, spec: S, networks: Networks, work: Work[S, R]
    ) -> Iterator[tuple[S, R | Failure]]:
        """Try one run in a pool of its own, until it is done or has killed too many workers."""
        for _ in range(ATTEMPTS - 1):  # it was in flight once before
            waiting, suspects = [spec], list[S]()
            yield from self._with_pool(waiting, suspects, networks, 1, work)
            if not suspects:
                return
        yield spec, Failure(f"its worker process died {ATTEMPTS} times")

    def _with_pool(
        self,
        waiting: list[S],
        suspects: list[S],
        networks: Networks,
        jobs: int,
        work: Work[S, R],
    ) -> Iterator[tuple[S, R | Failure]]:
        """Work with one pool until all is done or a worker dies.

        Runs are taken from `waiting`; those in flight when a worker dies become `suspects`.
        """
        flying: dict[Future[R | Failure], S] = {}
        others = set(multiprocessing.active_children())  # the caller's own
        pool = ProcessPoolExecutor(
            jobs,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_prepare,
            initargs=(dict(networks),),
        )
        whole = False
        try:
            while waiting or flying:
                while waiting and len(flying) < jobs:
                    flying[pool.submit(_attempt_here, waiting[0], work)] = waiting[0]
                    waiting.pop(0)
                done, _ = wait(flying, return_when=FIRST_COMPLETED)
                for future in done:
                    outcome = future.result()
                    yield flying.pop(future), outcome
            whole = True
        except (BrokenProcessPool, OSError):  # the pool's own pipes may close while it is asked
            for future, spec in flying.items():
                if future.done() and future.exception() is None:
                    yield spec, future.result()
                else:
                    suspects.append(spec)
            if not flying and waiting:  # it died before anything was given to it
                suspects.append(waiting.pop(0))
        finally:
            pool.shutdown(wait=whole, cancel_futures=True)
            if not whole:
                for worker in set(multiprocessing.active_children()) - others:
                    with contextlib.suppress(ValueError):  # the pool has closed it by now
                        worker.kill()


_networks: dict[str, RoadNetwork | None] = {}


def _prepare(networks: dict[str, RoadNetwork | None]) -> None:
    """Make a worker ready: it leaves Ctrl-C to its parent, and ends when that is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _networks.update(networks)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait_for([sentinel])
    os._exit(1)


def _attempt_here(spec: S, work: Work[S, R]) -> R | Failure:
    return attempt(spec, _networks[spec.fingerprint], work)


@dataclass(frozen=True)
class Ray:
    """A Ray cluster (the ``ray`` extra): workers need no shared disk, networks travel with runs.

    Args:
        address: of a running cluster (``auto``, ``ray://host:port``); none starts Ray here.
        jobs: how many workers, where Ray is started here.
    """

    address: str | None = None
    jobs: int = 1

    def run(
        self, specs: Sequence[S], networks: Networks, work: Work[S, R]
    ) -> Iterator[tuple[S, R | Failure]]:
        """Yield every run with its outcome, as they finish."""
        ray = _import_ray()
        options: dict[str, Any] = {"log_to_driver": False, "include_dashboard": False}
        if self.address is None:
            options["num_cpus"] = self.jobs
        else:
            options = {"address": self.address, "log_to_driver": False}
        try:
            ray.init(**options)
        except (ConnectionError, RuntimeError, ValueError) as error:
            msg = f"no Ray cluster at {self.address or 'this machine'}: {error}"
            raise SuperarmError(msg) from error
        try:
            yield from self._collect(ray, specs, networks, work)
        finally:
            ray.shutdown()

    def _collect(
        self,
        ray: Any,  # noqa: ANN401 - an untyped module
        specs: Sequence[S],
        networks: Networks,
        work: Work[S, R],
    ) -> Iterator[tuple[S, R | Failure]]:
        remote = ray.remote(num_cpus=1, max_retries=ATTEMPTS - 1)(attempt)
        shared = {name: ray.put(network) for name, network in networks.items()}
        waiting = list(specs)
        flying: dict[Any, S] = {}
        while waiting or flying:
            room = max(1, 2 * int(ray.cluster_resources().get("CPU", 1)))
            while waiting and len(flying) < room:
                spec = waiting.pop(0)
                flying[remote.remote(spec, shared[spec.fingerprint], work)] = spec
            done, _ = ray.wait(list(flying))
            for reference in done:
                spec = flying.pop(reference)
                try:
                    outcome = ray.get(reference)
                except ray.exceptions.RayError as error:
                    outcome = Failure(f"its Ray worker died {ATTEMPTS} times: {error}")
                yield spec, outcome


def _import_ray() -> Any:  # noqa: ANN401 - an untyped module
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        msg = "--engine ray needs Ray; pip install 'superarm[ray]'"
        raise ImportError(msg) from error
