"""Cars of the demo drive on when one of their reports is not believed."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from parts import require_module
from services import small_city

require_module("fastapi", "service")

from superarm.service.demo import Driver  # noqa: E402
from superarm.service.http.refused import Refused  # noqa: E402
from superarm.service.routes.navigator import Navigator  # noqa: E402
from superarm.service.routes.schemas import RouteRequest  # noqa: E402
from superarm.service.routes.tokens import RouteTokens  # noqa: E402
from towns import Town  # noqa: E402


class Doubting:
    """A service that believes every other report."""

    def __init__(self) -> None:
        town = Town(small_city())
        self.network, self.fleet = town.network, town.fleet
        self.navigator = Navigator(
            self.network, self.fleet, RouteTokens(self.network, b"k" * 32), seed=1
        )
        self.current = SimpleNamespace(posterior=town.posterior(town.prior))
        self.kept = 0

    async def keep(self, trips: list[Any], _key: object) -> list[Any]:
        self.kept += len(trips)
        believed = self.kept % 2 == 1
        return [
            SimpleNamespace(
                status="accepted" if believed else "quarantined",
                detail=None if believed else "not plausible",
            )
            for _ in trips
        ]

    async def on_router(self, work: Any, _key: object, _price: float) -> Any:
        return work(self.current)


def test_a_tour_goes_on_when_trips_are_put_aside() -> None:
    async def toured() -> Driver:
        driver = Driver(Doubting())  # type: ignore[arg-type]
        driver.drive_many(30, None)  # type: ignore[arg-type]
        while driver.done < driver.asked and driver.problem is None:  # noqa: ASYNC110
            await asyncio.sleep(0)
        return driver

    driver = asyncio.run(toured())
    assert driver.problem is None
    assert driver.done == driver.asked
    assert driver.put_aside == driver.done // 2
    assert len(driver.trips) == driver.done - driver.put_aside


def test_a_single_drive_that_is_not_believed_says_why() -> None:
    async def drives() -> None:
        state = Doubting()
        driver = Driver(state)  # type: ignore[arg-type]
        ids = state.network.edge_ids
        question = state.navigator.query(RouteRequest(start=str(ids[0]), goal=str(ids[-1])))
        issued, _ = state.navigator.route(question, state.current.posterior)
        name = state.navigator.tokens.written(issued)
        assert (await driver.drive(name, None)).number == 1  # type: ignore[arg-type]
        with pytest.raises(Refused, match="not plausible"):
            await driver.drive(name, None)  # type: ignore[arg-type]

    asyncio.run(drives())
