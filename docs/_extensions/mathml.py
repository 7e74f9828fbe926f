"""Formulas as MathML, which browsers draw by themselves: no script, nothing to download."""

import html
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert


def markup(latex: str, display: str) -> str:
    """Return a formula as MathML, with its source for those who copy it."""
    found: str = convert(latex, display=display)
    return found.replace("<math ", f'<math aria-label="{html.escape(latex, quote=True)}" ', 1)


def rows_of(latex: str) -> list[str]:
    """Return the formulas of a block, which blank lines divide."""
    return [part.strip() for part in latex.split("\n\n") if part.strip()]


def inline(self: Any, node: nodes.math) -> None:  # noqa: ANN401 - Sphinx's translator
    """Write a formula within a line."""
    self.body.append(f'<span class="math">{markup(node.astext(), "inline")}</span>')
    raise nodes.SkipNode


def block(self: Any, node: nodes.math_block) -> None:  # noqa: ANN401 - Sphinx's translator
    """Write formulas by themselves."""
    for row in rows_of(node.astext()):
        self.body.append(f'<div class="math">{markup(row, "block")}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:  # noqa: ANN401 - Sphinx's application
    """Tell Sphinx."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
