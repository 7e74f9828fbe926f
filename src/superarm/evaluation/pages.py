"""Self-contained HTML pages: one style, pictures inside."""

import base64
import html
from collections.abc import Iterable, Sequence

_STYLE = """
:root { color-scheme: light; --ink: #1c2330; --soft: #5b6472; --line: #e1e5ea; --accent: #0b6e99; }
* { box-sizing: border-box; }
body { margin: 0; font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: #f6f7f9; }
main { max-width: 1080px; margin: 0 auto; padding: 2rem 1.2rem 4rem; }
h1 { font-size: 1.9rem; margin: 0 0 .3rem; } h2 { margin: 0 0 .4rem; font-size: 1.25rem; }
p.lead { color: var(--soft); max-width: 46rem; margin-top: 0; }
section { background: #fff; border: 1px solid var(--line); border-radius: 12px;
  padding: 1.2rem 1.4rem; margin: 1.2rem 0; }
img { width: 100%; height: auto; display: block; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .35rem .6rem; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; } th { color: var(--soft); font-weight: 600; }
tr.best td { font-weight: 650; color: var(--accent); }
.note { color: var(--soft); font-size: .9rem; } .scroll { overflow-x: auto; }
"""


def document(title: str, body: Sequence[str]) -> str:
    """Return a whole page from pieces of HTML."""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}'
        '</title><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body><main>{''.join(body)}</main></body></html>\n"
    )


def image(picture: bytes, text: str) -> str:
    """Return a PNG picture as part of a page, with a text for those who cannot see it."""
    data = base64.b64encode(picture).decode()
    return f'<img alt="{html.escape(text)}" src="data:image/png;base64,{data}">'


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table of plain texts."""
    head = "".join(f"<th>{html.escape(text)}</th>" for text in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(text)}</td>" for text in row) + "</tr>" for row in rows
    )
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
