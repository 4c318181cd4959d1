"""A report as one HTML file: no script, nothing fetched, every foreign word escaped."""

from __future__ import annotations

import base64
import hashlib
from datetime import tzinfo
from html import escape

from watch.telling.gather import Tale
from watch.telling.markdown import plain
from watch.telling.sections import Block, sections
from watch.telling.svg import plot

STYLE = """
:root { color-scheme: light dark; --line: #8884; --muted: #6b7280; --ok: #15803d; --warn: #a16207; --bad: #b91c1c; }
@media (prefers-color-scheme: dark) { :root { --muted: #9ca3af; --ok: #4ade80; --warn: #facc15; --bad: #f87171; } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; overflow-wrap: anywhere; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .3rem; overflow-wrap: anywhere; }
p, li { margin: .4rem 0; max-width: 46rem; overflow-wrap: anywhere; }
table { border-collapse: collapse; margin: .6rem 0; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .2rem .9rem .2rem 0; border-bottom: 1px solid var(--line);
  overflow-wrap: anywhere; }
th { font-weight: 600; color: var(--muted); }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: .85rem;
  padding: .6rem .8rem; border: 1px solid var(--line); border-radius: .3rem; }
svg { max-width: 100%; height: auto; }
figure { margin: 1rem 0; } figcaption { font-weight: 600; }
.outcome { font-size: 1.15rem; }
.ready { color: var(--ok); } .warning, .stalled { color: var(--warn); }
.error, .fatal, .failed { color: var(--bad); }
"""


def html(tale: Tale, zone: tzinfo | None = None) -> str:
    """The whole page. ``zone``: of all times; None: this machine's own."""
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    all_sections = list(sections(tale, zone))
    out = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:;'
        f" style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'\">",
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        '<link rel="icon" href="data:,">',
        f"<title>{_text(all_sections[0].title)} – firstlight</title>",
        f"<style>{STYLE}</style>",
        "</head>",
        "<body>",
        "<main>",
    ]
    plots = 0
    for number, section in enumerate(all_sections):
        out.append(f"<h1>{_text(section.title)}</h1>" if number == 0 else f"<h2>{_text(section.title)}</h2>")
        for block in section.blocks:
            plots += block.kind == "plot"
            out.append(_block(block, number == 0, f"plot{plots}"))
    out += ["</main>", "</body>", "</html>"]
    return "\n".join(out) + "\n"


def _block(block: Block, first: bool, ident: str) -> str:
    kind = f" class={_quoted(block.severity)}" if block.severity else ""
    if block.kind == "table":
        head = "".join(f'<th scope="col">{_text(cell)}</th>' for cell in block.head)
        named = any(block.head)
        rows = "".join(_row(row, named) for row in block.rows)
        thead = f"<thead><tr>{head}</tr></thead>\n" if named else ""
        return f"<table>{thead}<tbody>\n{rows}</tbody></table>"
    if block.kind == "code":
        return "<pre>" + "\n".join(_text(line) for line in block.lines) + "</pre>"
    if block.kind == "list":
        return "<ul>" + "".join(f"<li>{_text(line)}</li>" for line in block.lines) + "</ul>"
    if block.kind == "heading":
        return f"<h3{kind}>{_text(block.lines[0])}</h3>"
    if block.kind == "plot":
        drawing = plot(block.lines[0], block.series, block.bands, *block.span, ident)
        return f"<figure>{drawing}<figcaption>{_text(block.lines[0])}</figcaption></figure>"
    if first:
        kind = f' class="outcome {escape(block.severity)}"'
    return "\n".join(f"<p{kind if not number else ''}>{_text(line)}</p>" for number, line in enumerate(block.lines))


def _row(cells: tuple[str, ...], named: bool) -> str:
    """``named``: the columns have names; else the first cell names its row."""
    first = "" if named else f'<th scope="row">{_text(cells[0])}</th>'
    return f"<tr>{first}{''.join(f'<td>{_text(cell)}</td>' for cell in cells[not named :])}</tr>\n"


def _text(words: str) -> str:
    return escape(plain(words))


def _quoted(words: str) -> str:
    return f'"{escape(words)}"'
