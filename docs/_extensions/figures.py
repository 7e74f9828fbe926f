"""Pictures of tutorials that are values: matplotlib figures without pyplot, and PNG in memory."""

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst, matplotlib_scraper

_PNG = b"\x89PNG"


def figures(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:  # noqa: ANN401 - sphinx-gallery's
    """Save what a block has made and no block before it."""
    from matplotlib import pyplot as plt  # noqa: PLC0415 - only where figures are drawn

    told: str = matplotlib_scraper(block, block_vars, gallery_conf) if plt.get_fignums() else ""
    names = block_vars["example_globals"]
    known = names.setdefault("__shown__", set())
    paths = []
    for name, value in list(names.items()):
        picture = isinstance(value, bytes) and value.startswith(_PNG)
        drawn = isinstance(value, Figure) and not hasattr(value, "number")
        if name == "__shown__" or not (picture or drawn) or id(value) in known:
            continue
        known.add(id(value))
        path = next(block_vars["image_path_iterator"])
        if picture:
            Path(path).write_bytes(value)
        else:
            value.savefig(path, dpi=110)
        paths.append(path)
    return told + (figure_rst(paths, gallery_conf["src_dir"]) if paths else "")
