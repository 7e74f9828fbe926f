"""Make the pictures of the page in docs/images: python tools/page_pictures.py.

A demonstration is started, a hundred cars drive, and a real browser (Debian's chromium, by
Playwright) looks at it.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
GL = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
WIDE, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}


def main() -> None:
    """Start a demonstration, look at it, and stop it."""
    command = [str(Path(sys.executable).parent / "superarm"), "serve", "--demo", "--port", "0"]
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
        try:
            assert server.stderr is not None  # noqa: S101 - it is a pipe
            for line in server.stderr:
                if found := re.search(r"http://\S+:\d+", line):
                    _look(found.group())
                    break
        finally:
            server.terminate()
            server.wait(30)


def _look(url: str) -> None:
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=GL)
        page = browser.new_page(viewport=WIDE)
        _open(page, url)
        page.click("#tour")
        page.wait_for_timeout(2500)
        page.screenshot(path=IMAGES / "page-learning.png")
        expect(page.locator("#driven")).to_contain_text("trips driven", timeout=180_000)
        page.wait_for_timeout(4000)
        _ask(page)
        page.screenshot(path=IMAGES / "page-route.png")
        page.locator("#more").evaluate("element => { element.open = true; }")
        for name, value in (("charge", "0.25"), ("capacity", "0.8"), ("reserve", "0.02")):
            page.fill(f"#{name}", value)
        page.click("#reach")
        page.wait_for_timeout(2500)
        page.screenshot(path=IMAGES / "page-reach.png")
        dark = browser.new_page(viewport=PHONE, color_scheme="dark")
        _open(dark, url)
        _ask(dark)
        dark.screenshot(path=IMAGES / "page-phone.png")
        browser.close()


def _open(page: Page, url: str) -> None:
    page.goto(url)
    page.wait_for_selector("body[data-ready]", timeout=60_000)
    page.wait_for_timeout(1500)


def _ask(page: Page) -> None:
    page.fill("#start", "Station 4")
    page.wait_for_timeout(700)
    page.fill("#goal", "Station 7")
    page.wait_for_timeout(700)
    page.click("#route-form button[type=submit]")
    page.wait_for_timeout(3000)
    page.locator("#panel").evaluate("panel => panel.scrollTo(0, 0)")
    page.wait_for_timeout(300)


if __name__ == "__main__":
    main()
