"""The page as a person uses it: a real browser on a real server."""

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image

from parts import require_command, require_module, require_networks
from services import Server, add_key, running, small_city, stretched
from superarm.client import Client, ServiceError
from superarm.roads.network.formats.reading import open_network
from superarm.roads.network.water import Water

require_module("fastapi", "service")
require_module("playwright", "dev")
require_module("axe_playwright_python", "dev")

from axe_playwright_python.sync_playwright import Axe  # noqa: E402
from playwright.sync_api import (  # noqa: E402
    Browser,
    Page,
    Playwright,
    Route,
    expect,
    sync_playwright,
)

from superarm.service.demo import stations_of  # noqa: E402

GL = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
PICTURES = os.environ.get("SUPERARM_PICTURES")
"""A folder to leave screenshots in, for people to look at."""

_COMPLAINTS: dict[int, list[str]] = {}
VENDOR = Path(__file__).parents[3] / "src" / "superarm" / "service" / "http" / "page" / "vendor"


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    require_command("chromium", "chromium")
    expect.set_options(timeout=30_000)  # on a busy machine
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="module")
def browser(playwright: Playwright) -> Iterator[Browser]:
    started = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=GL)
    yield started
    started.close()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("demo"), "--demo") as server:
        yield server


def opened(browser: Browser, server: Server, **options: Any) -> Page:
    """The page, ready; whatever it complains about fails the test at its end."""
    page = browser.new_page(**({"viewport": {"width": 1280, "height": 860}} | options))
    page.on("pageerror", lambda error: complaints(page).append(str(error)))
    page.on(
        "console",
        lambda message: complaints(page).append(message.text) if message.type == "error" else None,
    )
    page.goto(server.url)
    page.wait_for_selector("body[data-ready]", timeout=30_000)
    return page


def complaints(page: Page) -> list[str]:
    return _COMPLAINTS.setdefault(id(page), [])


def wait_until(page: Page, holds: str, argument: Any = None) -> None:
    """Wait until JavaScript holds; the page's policy forbids what `wait_for_function` does."""
    until = time.monotonic() + stretched(60.0)
    while not page.evaluate(holds, argument):
        assert time.monotonic() < until, holds
        page.wait_for_timeout(100)


def keep_picture(page: Page, name: str) -> None:
    if PICTURES:
        page.screenshot(path=Path(PICTURES) / f"{name}.png")


def click_map(page: Page, x: float, y: float) -> None:
    box = page.locator("#map canvas").bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + x * box["width"], box["y"] + y * box["height"])


def shown_energy(wh: float) -> str:
    text = f"{wh / 1000:.2f} kWh" if abs(wh) >= 10_000 else f"{round(wh)} Wh"
    return text.replace("-", "−")


def test_faster_or_thriftier_routes_are_dots_of_a_chart(browser: Browser, demo: Server) -> None:
    features = demo.ask("GET", "/v1/network").json["features"]
    names = [feature["properties"]["edge"] for feature in features]
    rng = np.random.default_rng(0)
    while True:  # some ends have one way to go
        start, goal = rng.choice(names, size=2, replace=False)
        found = demo.ask("GET", f"/v1/front?start={start}&goal={goal}")
        if found.status == 200 and len(found.json["routes"]) > 2:
            break
    page = opened(browser, demo)
    page.fill("#start", str(start))
    page.fill("#goal", str(goal))
    page.click("#route-form button[type=submit]")
    dots = page.locator("#front circle")
    expect(dots).to_have_count(len(found.json["routes"]))
    dots.first.click()
    expect(dots.first).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#front-shown")).to_contain_text("Fastest")
    first, last = (shown_energy(found.json["routes"][end]["energy_wh"]) for end in (0, -1))
    expect(page.locator("#energy")).to_have_text(first)
    dots.last.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#front-shown")).to_contain_text("Thriftiest")
    expect(page.locator("#energy")).to_have_text(last)
    keep_picture(page, "front")
    with page.expect_response("**/v1/demo/drive"):
        page.click("#drive")


def test_click_drive_and_watch_it_learn(browser: Browser, demo: Server) -> None:
    page = opened(browser, demo)
    expect(page.locator("#status")).to_contain_text("demonstration")
    with page.expect_response("**/v1/routes") as asked:
        click_map(page, 0.3, 0.4)
        page.wait_for_timeout(400)  # two clicks, not a double click
        click_map(page, 0.7, 0.6)
    route = asked.value.json()
    # what is shown is what the API said
    expect(page.locator("#energy")).to_have_text(shown_energy(route["energy_wh"]))
    low, high = (shown_energy(route[name]) for name in ("energy_low_wh", "energy_high_wh"))
    expect(page.locator("#interval")).to_have_text(f"90 %: {low} to {high}")
    kilometres = f"{route['length_m'] / 1000:.2f} km, {len(route['edges'])} road sections"
    expect(page.locator("#length")).to_have_text(kilometres)
    expect(page.locator("#minutes")).to_contain_text("min")
    expect(page.locator("#minutes-interval")).to_contain_text("90 %:")
    expect(page.locator("#arrives")).to_contain_text(route["arrives_at"][11:16])
    expect(page.locator("#choices button")).to_have_count(1 + len(route["alternatives"]))
    if not route["alternatives"]:
        expect(page.locator("#choices")).to_be_hidden()
    assert page.locator("#profile polyline").count() == 1
    assert page.locator(".pin").count() == 2
    # the route is drawn: pixels of its colour are on the map
    page.wait_for_timeout(1200)
    assert page.evaluate("document.querySelector('#map canvas').width") > 100
    keep_picture(page, "route")
    before = demo.ask("GET", "/v1/stats").json["trips"]
    with page.expect_response("**/v1/demo/drive") as driven:
        page.click("#drive")
    trip = driven.value.json()
    expect(page.locator("#driven")).to_contain_text(f"min and {shown_energy(trip['energy_wh'])};")
    page.click("#tour")
    expect(page.locator("#driven")).to_contain_text("100 trips driven", timeout=180_000)
    assert page.locator("#progress").evaluate("bar => bar.value") == 100
    believed = 101 - demo.ask("GET", "/v1/demo/tour").json["put_aside"]
    demo.learned(before + believed)
    stats = demo.ask("GET", "/v1/stats").json
    while stats["calibration"]["trips"] < before + believed:  # sums are two seconds old at most
        page.wait_for_timeout(300)
        stats = demo.ask("GET", "/v1/stats").json
    expect(page.locator("#trips")).to_have_text(str(stats["trips_learned"]), timeout=10_000)
    share = stats["calibration"]["coverage_90"]
    expect(page.locator("#coverage")).to_contain_text(f"{100 * share:.1f} %", timeout=10_000)
    assert page.locator("#regret circle").count() == stats["calibration"]["trips"]
    page.click("#tab-learn")
    expect(page.locator("#calibration-figure")).to_be_visible()
    for layer in ("correction", "visits", "height", "energy", "fog"):
        page.select_option("#colour", layer)
        page.wait_for_timeout(200)
        keep_picture(page, f"layer-{layer}")
        assert page.locator("#high").text_content() != ""
    assert complaints(page) == []
    page.close()


def test_the_keyboard_is_enough(browser: Browser, demo: Server) -> None:
    page = opened(browser, demo)
    ids = demo.ask("GET", "/v1/network").json["features"]
    page.focus("#start")
    page.keyboard.type(ids[0]["properties"]["edge"])
    page.keyboard.press("Tab")
    page.keyboard.type(ids[300]["properties"]["edge"])
    page.keyboard.press("Enter")
    expect(page.locator("#result")).to_be_visible()
    page.fill("#goal", "nowhere")
    page.keyboard.press("Enter")
    expect(page.locator("#problem")).to_contain_text("no edge 'nowhere'")
    page.locator("summary").focus()
    page.keyboard.press("Enter")
    page.fill("#charge", "0.1")
    page.fill("#goal", ids[300]["properties"]["edge"])
    page.keyboard.press("Enter")
    expect(page.locator("#arrival")).to_contain_text("%")
    wrong = [text for text in complaints(page) if "422" not in text]  # the browser logs refusals
    assert wrong == []
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_is_accessible_everywhere(
    browser: Browser, demo: Server, scheme: Any, width: int
) -> None:
    page = opened(browser, demo, color_scheme=scheme, viewport={"width": width, "height": 844})
    ids = demo.ask("GET", "/v1/network").json["features"]
    page.fill("#start", ids[5]["properties"]["edge"])
    page.fill("#goal", ids[250]["properties"]["edge"])
    page.keyboard.press("Enter")
    expect(page.locator("#result")).to_be_visible()
    page.locator("details").evaluate("element => { element.open = true; }")
    page.wait_for_timeout(600)
    keep_picture(page, f"{scheme}-{width}")
    rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
    for tab in ("drive", "learn", "operator"):
        page.click(f"#tab-{tab}")
        found = Axe().run(page, options={"runOnly": {"type": "tag", "values": rules}})
        assert found.response["violations"] == [], found.generate_report()
        assert len(found.response["passes"]) > 10
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= width  # nothing sticks out to the side
    page.close()


def two_ends(server: Server) -> tuple[str, str]:
    """Two edges far apart, between which there is more than one way to go."""
    features = server.ask("GET", "/v1/network?most=3000").json["features"]
    middle = np.array([feature["geometry"]["coordinates"][0] for feature in features])
    rng = np.random.default_rng(4)
    while True:
        one, other = rng.choice(len(features), 2, replace=False)
        far = np.hypot(*np.ptp(middle, axis=0)) / 3
        names = [str(features[i]["properties"]["edge"]) for i in (one, other)]
        if np.hypot(*(middle[one] - middle[other])) > far:
            query = f"/v1/front?start={quote(names[0])}&goal={quote(names[1])}"
            found = server.ask("GET", query)
            if found.status == 200 and len(found.json["routes"]) > 1:
                return names[0], names[1]


def asked_for(page: Page, start: str, goal: str) -> Any:
    page.fill("#start", start)
    page.fill("#goal", goal)
    with page.expect_response("**/v1/routes") as asked:
        page.click("#route-form button[type=submit]")
    expect(page.locator("#result")).to_be_visible()
    return asked.value.json()


def test_a_driver_does_ten_things(browser: Browser, demo: Server, tmp_path: Path) -> None:
    drive_as_a_driver(opened(browser, demo), *two_ends(demo), tmp_path)


@pytest.mark.slow
def test_a_driver_and_an_operator_do_them_in_luxembourg(browser: Browser, tmp_path: Path) -> None:
    roads = require_networks() / "luxembourg.net.xml.gz"
    key = add_key(str(tmp_path / "t.db"), "admin")
    stations = tmp_path / "stations.geojson"
    stations.write_text(json.dumps({"features": made_up_stations(roads)}))
    options = ["--network", str(roads), "--database", "t.db", "--stations", str(stations)]
    with running(tmp_path, *options, key=key) as server:
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        page.on("pageerror", lambda error: complaints(page).append(str(error)))
        page.goto(server.url)
        page.fill("#key", key)
        page.click("#key-form button")
        page.wait_for_selector("body[data-ready]", timeout=60_000)
        click_map(page, 0.45, 0.45)
        page.wait_for_timeout(400)
        with page.expect_response("**/v1/routes") as asked:
            click_map(page, 0.6, 0.55)
        assert asked.value.status == 200  # clicks anywhere near roads find one
        drive_as_a_driver(page, *two_ends(server), tmp_path)
        operate(page, server)
        page.close()


def made_up_stations(roads: Path) -> list[Any]:
    network = open_network(roads).largest_component()
    return [
        {
            "type": "Feature",
            "geometry": {"type": "Point", "coordinates": [one.longitude, one.latitude]},
            "properties": {"name": one.name, "power_kw": one.power_w / 1000},
        }
        for one in stations_of(network)
    ]


def drive_as_a_driver(  # noqa: PLR0915 - ten tasks, one after the other
    page: Page, start: str, goal: str, folder: Path
) -> None:
    """What a driver does; every step is seen to have worked."""
    # 1. ask for the thriftiest route, and see energy, minutes, arrival and why
    route = asked_for(page, start, goal)
    expect(page.locator("#energy")).to_have_text(shown_energy(route["energy_wh"]))
    assert page.locator("#parts rect").count() >= 2
    expect(page.locator("#rivals")).to_contain_text("against the fastest route")
    # 2. choose between faster and thriftier
    dots = page.locator("#front circle")
    expect(dots.first).to_be_visible()
    dots.first.click()
    expect(page.locator("#front-shown")).to_contain_text("Fastest")
    # 3. in other units
    page.select_option("#unit-energy", "per100")
    page.select_option("#unit-length", "mi")
    expect(page.locator("#energy")).to_contain_text("kWh/100 mi")
    expect(page.locator("#length")).to_contain_text(" mi, ")
    page.select_option("#unit-energy", "auto")
    page.select_option("#unit-length", "km")
    # 4. with the heating on it takes more
    page.locator("#more").evaluate("element => { element.open = true; }")
    page.fill("#temperature", "-10")
    cold = asked_for(page, start, goal)
    assert cold["energy_wh"] > route["energy_wh"]
    page.fill("#temperature", "")
    # 5. will the charge last?
    takes = max(route["energy_wh"], 100.0) / 1000
    for name, share in (("charge", 1.0), ("capacity", 1.25), ("reserve", 0.02)):
        page.fill(f"#{name}", f"{share * takes:.3f}")
    asked_for(page, start, goal)
    expect(page.locator("#arrival")).to_contain_text("%")
    # 6. with stops it does, or it is said what would be needed
    with page.expect_response("**/v1/plans") as planned:
        page.click("#plan")
    if planned.value.status == 200:
        expect(page.locator("#plan-result")).to_be_visible()
        expect(page.locator("#plan-stops li")).to_have_count(len(planned.value.json()["stops"]))
        assert page.locator("#charge-chart polyline").count() == 1
        keep_picture(page, "plan")
    else:
        expect(page.locator("#problem")).to_contain_text("no plan")
    # 7. how far, and back again
    page.check("#back")
    with page.expect_response("**/v1/reach") as reached:
        page.click("#reach")
    assert reached.value.status == 200
    expect(page.locator("#reach-told")).to_contain_text("and back")
    page.wait_for_timeout(800)
    keep_picture(page, "reach")
    # 8. take the route along
    for kind in ("gpx", "geojson"):
        with page.expect_download() as download:
            page.click(f"#{kind}")
        download.value.save_as(folder / f"route.{kind}")
    assert "<trkpt" in (folder / "route.gpx").read_text()
    assert json.loads((folder / "route.geojson").read_text())["features"]
    # 9. move an end by hand
    pin = page.locator(".pin").first
    box = pin.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 14, box["y"] + 14)
    page.mouse.down()
    page.mouse.move(box["x"] + 60, box["y"] + 30, steps=5)
    with page.expect_response("**/v1/routes"):
        page.mouse.up()
    # 10. share what is seen: who opens the link sees the same
    page.click("#share")
    page.wait_for_timeout(300)
    link = page.evaluate("location.href")
    assert "from=" in link
    assert "to=" in link
    page.goto("about:blank")
    page.goto(link)
    expect(page.locator("#result")).to_be_visible(timeout=30_000)


def test_a_link_is_followed_though_the_map_moves_while_the_page_begins(
    browser: Browser, demo: Server
) -> None:
    start, goal = two_ends(demo)
    page = browser.new_page(viewport={"width": 1280, "height": 860})
    held: list[Route] = []
    page.route("**/v1/stations", lambda asked: held.append(asked))  # noqa: PLW0108 - no builtins
    with page.expect_request("**/v1/stations"):  # the map is there by then
        page.goto(f"{demo.url}/#from={quote(start)}&to={quote(goal)}&vehicle=van")
    page.set_viewport_size({"width": 900, "height": 700})
    wait_until(page, "location.hash.includes('view=')")  # the map has moved
    held[0].continue_()
    expect(page.locator("#result")).to_be_visible()
    expect(page.locator("#vehicle")).to_have_value("van")
    page.close()


def test_an_operator_looks_after_it(browser: Browser, demo: Server) -> None:
    page = opened(browser, demo)
    operate(page, demo)
    assert complaints(page) == []
    page.close()


def operate(page: Page, server: Server) -> None:
    """What an operator does."""
    page.click("#tab-operator")
    expect(page.locator("#waiting")).not_to_have_text("–", timeout=10_000)
    page.fill("#key-name", "a new van")
    page.select_option("#key-role", "report")
    page.click("#new-key button")
    expect(page.locator("#made-key")).to_contain_text("superarm.")
    made = (page.locator("#made-key").text_content() or "").split(": ")[1]
    # the new key reports nonsense, which is put aside; it is looked at and dropped
    client = Client(server.url, made)
    edges = client.route(*two_ends(server), mode="best")["edges"]
    with contextlib.suppress(ServiceError):
        client.report("absurd", "2026-03-01T10:00:00+02:00", edges=edges, total_energy_wh=9e6)
    page.click("#tab-drive")
    page.click("#tab-operator")
    page.evaluate("import('/page/operator.js').then((part) => part.refreshOperator())")
    expect(page.locator("#quarantine li")).to_have_count(1, timeout=10_000)
    keep_picture(page, "operator")
    page.click("text=Drop absurd")
    expect(page.locator("#quarantine li")).to_have_count(0, timeout=10_000)
    page.click("text=Revoke a new van")
    expect(page.locator("#keys")).not_to_contain_text("a new van", timeout=10_000)


def test_a_background_is_loaded_from_where_it_was_said(browser: Browser, tmp_path: Path) -> None:
    with running(
        tmp_path,
        *("--demo", "--tiles", "http://127.0.0.1:9/{z}/{x}/{y}.png"),
        *("--tiles-attribution", "somebody's map"),
    ) as server:
        page = browser.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(server.url)
        page.wait_for_selector("body[data-ready]", timeout=30_000)
        page.wait_for_timeout(500)
        assert any(url.startswith("http://127.0.0.1:9/") for url in asked)
        assert all(url.startswith((server.url, "blob:", "http://127.0.0.1:9/")) for url in asked)
        expect(page.locator("#map")).to_contain_text("somebody's map")
        page.close()


def test_places_are_found_by_name(browser: Browser, demo: Server) -> None:
    page = opened(browser, demo)
    page.fill("#start", "Station 3")
    expect(page.locator("#places option").first).to_have_attribute("value", "Station 3")
    page.wait_for_timeout(500)
    page.fill("#goal", "Station 9")
    page.wait_for_timeout(700)
    with page.expect_response("**/v1/routes") as asked:
        page.click("#route-form button[type=submit]")
    assert asked.value.status == 200
    assert page.locator(".pin").count() == 2
    page.close()


def test_fog_lifts_and_what_was_believed_can_be_looked_at(browser: Browser, demo: Server) -> None:
    page = opened(browser, demo)
    start, goal = two_ends(demo)
    asked_for(page, start, goal)
    before = demo.ask("GET", "/v1/belief").json["energy_std_wh"]
    page.click("#tour")
    expect(page.locator("#driven")).to_contain_text("100 trips driven", timeout=180_000)
    # the same question has a surer answer by itself
    expect(page.locator("#narrower")).to_contain_text("when first asked", timeout=30_000)
    expect(page.locator("#compared-physics")).to_contain_text("±")
    page.locator("#moment").evaluate(
        "slider => { slider.value = 0; slider.dispatchEvent(new Event('input')); }"
    )
    expect(page.locator("#moment-told")).to_have_text("before the first trip")
    keep_picture(page, "fog-before")
    page.locator("#moment").evaluate(
        "slider => { slider.value = slider.max; slider.dispatchEvent(new Event('input')); }"
    )
    expect(page.locator("#moment-told")).to_contain_text("trips")
    keep_picture(page, "fog-after")
    # of roads, whose variances trips only lower; the best route may be another one by now
    after = demo.ask("GET", "/v1/belief").json["energy_std_wh"]
    assert sum(after) < sum(before)
    assert complaints(page) == []
    page.close()


STATE = "import('/page/state.js')"


def drive_some(page: Page, server: Server, trips: int = 5) -> int:
    """Let cars of the demonstration drive, and return how many trips the service then knows."""
    assert server.ask("POST", "/v1/demo/tour", {"trips": trips}).status == 200
    while (tour := server.ask("GET", "/v1/demo/tour").json)["done"] < tour["asked"]:
        page.wait_for_timeout(100)
    believed = int(
        tour["trips"][-1]["number"]
    )  # all that were ever driven, but for those put aside
    server.learned(believed)
    return believed


def wait_for_answer(page: Page, trips: int) -> None:
    """Wait until the route on the page is answered from so many trips."""
    answered = f"trips => {STATE}.then(({{ state }}) => state.answer.trips_learned === trips)"
    wait_until(page, answered, trips)


def expect_shown_route_in_chart(page: Page) -> None:
    """The chart of faster and thriftier routes holds the figures above it, as one dot."""
    wait_until(
        page,
        """() => {
          const text = (id) => document.getElementById(id).textContent;
          const dots = [...document.querySelectorAll("#front .chosen")].map((dot) => dot.ariaLabel);
          const figures = `${text("minutes")}, ${text("energy")}`;
          return figures !== ", " && dots.length === 1 && dots[0].endsWith(`: ${figures}`);
        }""",
    )


def name_ends(page: Page) -> None:
    """Ask for a route between two stations by name: roads of several directions are as close."""
    for pins, (which, name) in enumerate([("start", "Station 4"), ("goal", "Station 7")], 1):
        page.fill(f"#{which}", name)
        expect(page.locator(".pin")).to_have_count(pins)


def test_the_chart_holds_the_route_that_is_shown_before_and_after_learning(
    browser: Browser, demo: Server
) -> None:
    page = opened(browser, demo)
    name_ends(page)
    page.click("#route-form button[type=submit]")
    expect_shown_route_in_chart(page)
    expect(page.locator("#front-shown")).to_contain_text("Thriftiest")
    for choice in page.locator("#choices button").all():
        choice.click()
        expect_shown_route_in_chart(page)
    page.locator("#choices button").first.click()
    wait_for_answer(page, drive_some(page, demo))
    expect_shown_route_in_chart(page)
    expect(page.locator("#front-shown")).to_contain_text("Thriftiest")
    # who looks at the fastest route goes on looking at it
    page.locator("#front .pick").first.click()
    wait_for_answer(page, drive_some(page, demo))
    expect_shown_route_in_chart(page)
    expect(page.locator("#front-shown")).to_contain_text("Fastest")
    page.select_option("#mode", "explore")
    with page.expect_response("**/v1/routes"):
        page.click("#route-form button[type=submit]")
    expect_shown_route_in_chart(page)
    assert complaints(page) == []
    page.close()


def test_a_route_is_asked_again_as_it_was_asked_until_it_is_answered(
    browser: Browser, demo: Server
) -> None:
    page = opened(browser, demo)
    route = asked_for(page, *two_ends(demo))
    page.fill("#goal", "somewhere")  # typed, not asked for
    page.select_option("#vehicle", "truck")
    refusals: list[Route] = []

    def refuse_once(asked: Route) -> None:
        if refusals:
            asked.fallback()
        else:
            refusals.append(asked)
            asked.fulfill(status=503, json={"detail": "busy"})

    page.route("**/v1/routes", refuse_once)
    wait_for_answer(page, drive_some(page, demo))
    assert refusals
    ends = f"{STATE}.then(({{state}}) => [state.answer.edges[0], state.answer.edges.at(-1)])"
    assert page.evaluate(ends) == [route["edges"][0], route["edges"][-1]]
    vehicle = f"{STATE}.then(({{state}}) => state.question.body.vehicle)"
    assert page.evaluate(vehicle) == "car"
    assert [text for text in complaints(page) if "503" not in text] == []
    page.close()


def test_answers_that_are_not_asked_again_say_what_was_learned_since(
    browser: Browser, demo: Server
) -> None:
    page = opened(browser, demo)
    page.select_option("#mode", "explore")
    asked_for(page, *two_ends(demo))
    page.locator("#more").evaluate("element => { element.open = true; }")
    page.fill("#charge", "20")
    ages = [page.locator(f"#{name}-age") for name in ("route", "plan", "reach")]
    for button in ("plan", "reach"):
        with page.expect_response(re.compile(f"/v1/{button}")) as answered:
            page.click(f"#{button}")
        assert answered.value.status == 200
    for age in ages:
        expect(age).to_be_hidden()
    drive_some(page, demo)
    for age in ages:
        expect(age).to_contain_text(re.compile(r"^[1-5] more trips? .* learned since"))
    keep_picture(page, "ages")
    page.click("#route-form button[type=submit]")
    page.click("#plan")
    page.click("#reach")
    for age in ages:
        expect(age).to_be_hidden()
    assert complaints(page) == []
    page.close()


def test_time_that_is_lost_beside_other_routes_is_not_called_saved(
    browser: Browser, demo: Server
) -> None:
    driven: dict[str, Any] = {
        "energy_wh": 1.0,
        "minutes": 1.0,
        "predicted_wh": 1.0,
        "predicted_std_wh": 1.0,
    }
    driven |= {"best_possible_wh": 1.0, "edges": []}
    trips = [
        driven | {"number": i, "true_wh": 300.0 + i, "physics_wh": 100.0, "fastest_wh": 400.0}
        | {"true_minutes": 9.0 + i, "physics_minutes": 12.0 + i, "fastest_minutes": 4.0}
        for i in (1, 3)
    ]  # fmt: skip
    tour = {"asked": 2, "done": 2, "put_aside": 0, "problem": None, "trips": trips}
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.route("**/v1/demo/tour?*", lambda asked: asked.fulfill(json=tour))
    page.goto(demo.url)
    compared = page.locator("#compared")
    expect(compared.locator("h3")).to_have_text("Compared with other routes")
    # physics first: that is what learning is worth
    rivals = compared.locator("dt").all_text_contents()
    assert ["physics" in rivals[0], "fastest" in rivals[1]] == [True, True]
    lines = page.locator("#compared-physics span")
    expect(lines).to_have_text(["0.40 ± 0.00 kWh more energy", "6 ± 0 min less time"])
    lines = page.locator("#compared-fastest span")
    expect(lines).to_have_text(["0.20 ± 0.00 kWh less energy", "14 ± 2 min more time"])
    assert "saved" not in page.locator("body").inner_text().lower()
    page.close()


def test_numbers_on_the_page_have_a_true_minus(browser: Browser, demo: Server) -> None:
    page = opened(browser, demo)
    drive_some(page, demo)
    features = demo.ask("GET", "/v1/network").json["features"]
    down = max(features, key=lambda road: fall(road["properties"]))["properties"]["edge"]
    asked_for(page, down, down)
    expect(page.locator("#energy")).to_contain_text("−")
    expect(page.locator("#parts text").first).to_contain_text("−")
    page.reload()
    page.wait_for_selector("body[data-ready]")
    expect(page.locator("#energy")).to_contain_text("−")
    for tab in ("drive", "learn", "operator"):
        page.click(f"#tab-{tab}")
        if tab == "learn":
            expect(page.locator("#calibration-figure")).to_be_visible()
        texts = page.locator("body").evaluate(TEXTS)
        assert [text for text in texts if re.search(r"(^|[\s(±:])-\d", text)] == []
    page.close()


def fall(road: dict[str, Any]) -> float:
    """How steep a road is downhill."""
    drop = road["start_height_m"] - road["end_height_m"]
    return float(drop / max(road["length_m"], 50.0))


TEXTS = """body => {
  const walker = document.createTreeWalker(body, NodeFilter.SHOW_TEXT), texts = [];
  while (walker.nextNode()) {
    if (walker.currentNode.parentElement.checkVisibility()) texts.push(walker.currentNode.data);
  }
  return [...texts, ...[...body.querySelectorAll("[aria-label]")].map((one) => one.ariaLabel)];
}"""


def test_the_past_can_be_looked_at_for_another_vehicle(browser: Browser, demo: Server) -> None:
    page = opened(browser, demo)
    slide = "(slider, to) => { slider.value = to; slider.dispatchEvent(new Event('input')); }"
    for _ in range(3):  # moments after the first trip
        before = page.locator("#moment").get_attribute("max")
        drive_some(page, demo)
        expect(page.locator("#moment")).not_to_have_attribute("max", str(before))
    page.locator("#moment").evaluate(slide, "2")
    looked_at = page.locator("#moment-told").text_content()
    before = page.locator("#moment").get_attribute("max")
    drive_some(page, demo)
    expect(page.locator("#moment")).not_to_have_attribute("max", str(before))
    expect(page.locator("#moment-told")).to_have_text(str(looked_at))
    page.select_option("#vehicle", "van")
    expect(page.locator("#moment")).to_have_attribute("max", "1")
    expect(page.locator("#problem")).to_have_text("")
    # before the first trip nothing was measured, and physics was all there was
    page.locator("#moment").evaluate(slide, "0")
    for layer, value in (("visits", "0"), ("energy", "belief.physics_wh[0]")):
        page.select_option("#colour", layer)
        expected = f"""Promise.all([{STATE}, import('/page/learning.js')]).then((parts) => {{
          const [{{ state: {{ belief, roads }} }}, {{ valuesOf }}] = parts, id = belief.edge[0];
          const km = roads.get(id).properties.length_m / 1000;
          return Math.abs(valuesOf('{layer}').get(id) * km - {value}) < 1e-6;
        }})"""
        assert page.evaluate(expected)
    assert complaints(page) == []
    page.close()


def test_without_webgl_it_says_so_and_still_works(playwright: Playwright, demo: Server) -> None:
    plain = playwright.chromium.launch(
        executable_path=shutil.which("chromium"),
        args=["--no-sandbox", "--disable-gpu", "--disable-3d-apis"],
    )
    page = opened(plain, demo)
    expect(page.locator("#no-map")).to_contain_text("no WebGL")
    ids = demo.ask("GET", "/v1/network").json["features"]
    page.fill("#start", ids[5]["properties"]["edge"])
    page.fill("#goal", ids[250]["properties"]["edge"])
    page.keyboard.press("Enter")
    expect(page.locator("#result")).to_be_visible()
    keep_picture(page, "no-webgl")
    plain.close()


def test_outside_a_demo_it_asks_for_a_key(browser: Browser, tmp_path: Path) -> None:
    small_city().save(tmp_path / "city.npz")
    key = add_key(str(tmp_path / "t.db"), "report")
    with running(tmp_path, "--network", "city.npz", "--database", "t.db", key=key) as server:
        page = browser.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(server.url)
        expect(page.locator("#key-form")).to_be_visible()
        page.fill("#key", key)
        page.click("#key-form button")
        page.wait_for_selector("body[data-ready]", timeout=30_000)
        expect(page.locator("#demo")).to_be_hidden()
        expect(page.locator("#trips")).to_have_text("0")
        assert not any(key.split(".")[2] in url for url in asked)
        assert all(url.startswith((server.url, "blob:")) for url in asked)
        page.close()


def test_water_lies_below_roads_and_is_asked_for_where_there_is_some(
    browser: Browser, demo: Server, tmp_path: Path
) -> None:
    city = small_city()
    middle = city.junction_xy_m.mean(axis=0)
    corners = middle + 500.0 * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]])
    replace(city, water=Water.of([[corners]], ())).save(tmp_path / "wet.npz")
    key = add_key(str(tmp_path / "t.db"), "read")
    with running(tmp_path, "--network", "wet.npz", "--database", "t.db", key=key) as server:
        for scheme in ("light", "dark"):
            page = browser.new_page(color_scheme=scheme, viewport={"width": 1280, "height": 860})
            page.on("pageerror", lambda error: complaints(page).append(str(error)))  # noqa: B023
            page.goto(server.url)
            page.fill("#key", key)
            with page.expect_response("**/v1/water?bbox=*"):
                page.click("#key-form button")
            page.wait_for_selector("body[data-ready]", timeout=30_000)
            expect(page.locator("#trips")).to_have_text("0")  # what is believed is there
            page.select_option("#colour", "plain")
            wet, water, road = (
                pixels_of(page),
                colour_of(page, "--water"),
                colour_of(page, "--road"),
            )
            page.evaluate(f"{STATE}.then(({{state}}) => state.map.showWater({NOTHING}))")
            dry = pixels_of(page)
            lake = np.abs(wet - water).max(axis=2) <= ROUNDING
            assert lake.mean() > 0.02
            assert (np.abs(dry - water).max(axis=2) <= ROUNDING).mean() < 0.001
            # roads across the lake are as they are without it
            rows, columns = np.flatnonzero(lake.any(axis=1)), np.flatnonzero(lake.any(axis=0))
            across = np.ix_(
                np.arange(rows[0], rows[-1] + 1), np.arange(columns[0], columns[-1] + 1)
            )
            roads = (dry[across] == road).all(axis=2)
            assert roads.sum() > 100
            assert np.abs(wet[across][roads] - road).max() <= ROUNDING
            keep_picture(page, f"water-{scheme}")
            assert complaints(page) == []
            page.close()
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(demo.url)
    page.wait_for_selector("body[data-ready]", timeout=30_000)
    page.wait_for_timeout(600)
    assert not any("/v1/water" in url for url in asked)
    page.close()


NOTHING = "{type: 'FeatureCollection', features: []}"


ROUNDING = 2
"""How far a colour may be off: of pixels that something covers nearly all of."""


def pixels_of(page: Page) -> Any:
    page.wait_for_timeout(1500)
    picture = Image.open(io.BytesIO(page.locator("#map canvas").screenshot()))
    return np.asarray(picture.convert("RGB")).astype(int)


def colour_of(page: Page, name: str) -> Any:
    style = "getComputedStyle(document.documentElement)"
    text = page.evaluate(f"{style}.getPropertyValue('{name}').trim()")
    return np.array([int(text[i : i + 2], 16) for i in (1, 3, 5)])


def test_the_map_library_is_the_one_it_claims_to_be() -> None:
    claimed = json.loads((VENDOR / "vendored.json").read_text(encoding="utf-8"))
    assert claimed["license"] == "BSD-3-Clause"
    for name, digest in claimed["sha256"].items():
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == digest
    assert f"v{claimed['version']}" in (VENDOR / "maplibre-gl.mjs").read_text("utf-8")[:400]
