"""Convert formulas to MathML when the site is built, so that pages need no script (MkDocs hook)."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
THIN = '<mspace width="0.17em"/>'


def on_page_content(content: str, **_: Any) -> str:
    """Replace the formulas marked by pymdownx.arithmatex."""
    return FORMULA.sub(_mathml, content)


def _mathml(match: re.Match[str]) -> str:
    block = match[1] == "div"
    formula = convert(html.unescape(match[2]).strip(), display="block" if block else "inline")
    # TeX sets a thin space around the names of functions; the converter does not.
    formula = formula.replace("<mi>log</mi>", f"{THIN}<mi>log</mi>{THIN}").replace(
        "<mi>exp</mi>", f"{THIN}<mi>exp</mi>"
    )
    return f'<div class="formula">{formula}</div>' if block else formula
