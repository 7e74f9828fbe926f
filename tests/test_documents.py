"""Every Python block of README.md and docs/ runs, block after block as a reader would."""

import os
import re
from pathlib import Path

import pytest

from parts import require_module

ROOT = Path(__file__).resolve().parents[1]
BUILT = {"tutorials", "gallery", "measured"}  # folders made by `make docs`
WRITTEN = {"commands", "http", "measured", "changelog", "contributing", "security", "conduct"}
PAGES = [
    path
    for path in sorted((ROOT / "docs").rglob("*.md"))
    if path.parent.name not in BUILT and path.stem not in WRITTEN
]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES]
WITH_CODE = [path for path in DOCUMENTS if "```python" in path.read_text(encoding="utf-8")]
NEEDED = (
    ("import pandas", "pandas", "tables"),
    ("import pandas", "narwhals", "tables"),
    ("import pyarrow", "pyarrow", "experiments"),
    ("from superarm.simulation", "libsumo", "simulation"),
    ("from superarm.simulation", "sumolib", "simulation"),
)
"""What a page's code needs besides the core: a sign of it, the module, and the extra."""


@pytest.mark.parametrize("document", WITH_CODE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_code_blocks_run(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = document.read_text(encoding="utf-8")
    for sign, module, extra in NEEDED:
        if sign in text:
            require_module(module, extra)
    names: dict[str, object] = {"__name__": "__main__"}
    for block in re.finditer(r"```python\n(.*?)```", text, re.DOTALL):
        line = text[: block.start()].count("\n") + 1
        source = "\n" * line + block.group(1)  # so that errors name the document's line
        exec(compile(source, str(document), "exec"), names)  # noqa: S102 - the project's own text


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_to_files_lead_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in target:
            assert _exists(document.parent / target), f"{document.name} links to {target}"


def _exists(target: Path) -> bool:
    """Whether a file is there, or will be when the site is built."""
    path = Path(os.path.normpath(target))
    if path.parent.name in {"tutorials", "gallery"}:
        made_of = ROOT / "docs" / "examples" / path.parent.name
        made = (made_of / f"{path.stem}.py").exists() or path.stem == "index"
        return made or path.exists()
    if path.parent.name == "measured":
        return (ROOT / "benchmarks" / "results" / path.name).exists()
    return path.exists() or path.stem in WRITTEN
