"""The page as a person uses it: a real browser on a real server."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parts import require_command, require_module
from services import Server, add_key, running, small_city

require_module("fastapi", "service")
require_module("playwright", "dev")
require_module("axe_playwright_python", "dev")

from axe_playwright_python.sync_playwright import Axe  # noqa: E402
from playwright.sync_api import Browser, Page, Playwright, expect, sync_playwright  # noqa: E402

GL = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
PICTURES = os.environ.get("SUPERARM_PICTURES")
"""A folder to leave screenshots in, for people to look at."""

_COMPLAINTS: dict[int, list[str]] = {}
VENDOR = Path(__file__).parents[3] / "src" / "superarm" / "service" / "http" / "page" / "vendor"


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    require_command("chromium", "chromium")
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


def keep_picture(page: Page, name: str) -> None:
    if PICTURES:
        page.screenshot(path=Path(PICTURES) / f"{name}.png")


def click_map(page: Page, x: float, y: float) -> None:
    box = page.locator("#map canvas").bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + x * box["width"], box["y"] + y * box["height"])


def shown_energy(wh: float) -> str:
    return f"{wh / 1000:.2f} kWh" if abs(wh) >= 10_000 else f"{round(wh)} Wh"


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
    kilometres = f"{route['length_m'] / 1000:.2f} km, {len(route['edges'])} edges"
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
    expect(page.locator("#calibration-figure")).to_be_visible()
    for layer in ("uncertainty", "visits", "height", "energy"):
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
    found = Axe().run(page, options={"runOnly": {"type": "tag", "values": rules}})
    assert found.response["violations"] == [], found.generate_report()
    assert len(found.response["passes"]) > 10
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= width  # nothing sticks out to the side
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


def test_the_map_library_is_the_one_it_claims_to_be() -> None:
    claimed = json.loads((VENDOR / "vendored.json").read_text(encoding="utf-8"))
    assert claimed["license"] == "BSD-3-Clause"
    for name, digest in claimed["sha256"].items():
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == digest
    assert f"v{claimed['version']}" in (VENDOR / "maplibre-gl.mjs").read_text("utf-8")[:400]
