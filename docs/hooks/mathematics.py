"""MkDocs hook: formulas become MathML when the site is built, so that no script is needed to read them."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """Replace what pymdownx.arithmatex has marked."""
    return FORMULA.sub(_mathml, content)


def _mathml(match: re.Match[str]) -> str:
    block = match[1] == "div"
    formula = convert(html.unescape(match[2]).strip(), display="block" if block else "inline")
    return f'<div class="formula">{formula}</div>' if block else formula
