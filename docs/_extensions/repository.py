"""What lies beside the documents: measured tables become pages, other files links to the source."""

import os
import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
ROOT = HERE.parent
SOURCE = "https://github.com/superarm/superarm/blob/main/"
PAGES = {
    ROOT / "CHANGELOG.md": "changelog",
    ROOT / "CONTRIBUTING.md": "contributing",
    ROOT / "SECURITY.md": "security",
    ROOT / "CODE_OF_CONDUCT.md": "conduct",
}
"""Files of the repository that are pages of the site as well."""

_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")


def measured(path: Path) -> str | None:
    """Return the page of a file of the repository, if it has one."""
    if path.parent == ROOT / "benchmarks" / "results" and path.suffix == ".md":
        return f"measured/{path.stem}"
    return PAGES.get(path)


def rewritten(text: str, folder: Path) -> str:
    """Return a document whose links lead to pages where there are some."""

    def link(match: re.Match[str]) -> str:
        words, target = match.groups()
        file, _, place = target.partition("#")
        if "://" in target or not file or file.startswith("/"):
            return match.group(0)
        path = Path(os.path.normpath(folder / file))
        place = f"#{place}" if place else ""
        page = measured(path)
        if page is not None:
            return f"[{words}](/{page}.md{place})"
        if path.parent == HERE / "examples" / "tutorials":
            name = "index" if path.stem == "GALLERY_HEADER" else path.stem
            return f"[{words}](/tutorials/{name}.rst{place})"
        if path.is_relative_to(HERE) and path.suffix == ".md":
            return f"[{words}](/{path.relative_to(HERE).as_posix()}{place})"
        if path.is_relative_to(HERE):
            return match.group(0)
        return f"[{words}]({SOURCE}{path.relative_to(ROOT).as_posix()})"

    return _LINK.sub(link, text)


def copied(_: Any) -> None:  # noqa: ANN401 - Sphinx's application
    """Copy what is a page and lies elsewhere."""
    sources = [*sorted((ROOT / "benchmarks" / "results").glob("*.md")), *PAGES]
    for path in sources:
        page = measured(path)
        if page is None or not path.exists():
            continue
        target = HERE / f"{page}.md"
        target.parent.mkdir(exist_ok=True)
        text = rewritten(path.read_text(encoding="utf-8"), path.parent)
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.write_text(text, encoding="utf-8")


def read(app: Any, name: str, source: list[str]) -> None:  # noqa: ANN401 - Sphinx's application
    """Rewrite the links of a document."""
    path = Path(app.env.doc2path(name))
    if path.suffix == ".md" and f"{name}" not in PAGES.values() and path.parent.name != "measured":
        source[0] = rewritten(source[0], path.parent)


def setup(app: Any) -> dict[str, bool]:  # noqa: ANN401 - Sphinx's application
    """Tell Sphinx."""
    app.connect("builder-inited", copied, priority=100)
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
