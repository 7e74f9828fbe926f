"""Whether the built site holds together: every link within it, and nothing that needs a network.

Usage: python tools/check_site.py site
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What a page has and where it leads."""

    def __init__(self, path: Path) -> None:
        """Read a page."""
        super().__init__()
        self.names: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note names, links, and what is loaded with the page."""
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.names.add(value)
            elif tag == "a" and name == "href":
                self.links.append(value)
            elif name == "src" or (
                tag == "link" and name == "href" and ("rel", "canonical") not in attrs
            ):
                self.loaded.append(value)


def problems(site: Path) -> list[str]:
    """Return what is wrong with a site."""
    every = [path for path in site.rglob("*.html") if "_static" not in path.parts]
    pages = {path: Page(path) for path in every}
    found = []
    for path, page in pages.items():
        here = path.relative_to(site)
        found += [
            f"{here} loads {address} from elsewhere"
            for address in page.loaded
            if urlsplit(address).scheme in {"http", "https"}
        ]
        for link in [*page.links, *page.loaded]:
            parts = urlsplit(link)
            if parts.scheme or link.startswith("//"):
                continue
            target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
            if target.is_dir():
                target /= "index.html"
            if not target.exists() or not target.is_relative_to(site):
                found.append(f"{here} leads to {link}, which is not there")
            elif (
                parts.fragment
                and target in pages
                and unquote(parts.fragment) not in pages[target].names
            ):
                found.append(f"{here} leads to {link}, and that page has no such place")
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8", errors="replace")
        far = re.findall(r"(?:@import|url\()\s*[\"']?(https?://[^\"')\s]+)", text)
        found += [f"{style.relative_to(site)} loads {address} from elsewhere" for address in far]
    return found


def main() -> None:
    """Check a site and say what is wrong."""
    site = Path(sys.argv[1]).resolve()
    found = problems(site)
    for line in found[:40]:
        print(line)
    if found:
        sys.exit(f"{len(found)} problems in {site.name}")
    print(f"{len(list(site.rglob('*.html')))} pages hold together and need no network")


if __name__ == "__main__":
    main()
