"""What a recorded watch is told as afterwards: gathered once, then written as HTML or as Markdown."""

from watch.telling.gather import Tale, gather
from watch.telling.html import html
from watch.telling.markdown import markdown

__all__ = ["Tale", "gather", "html", "markdown"]
