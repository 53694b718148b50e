"""The code blocks of the documentation, as a reader sees them.

Python blocks are marked ``python``, commands ``sh``. A ``text`` block right after either is what it prints. The comment
``<!-- not run: reason -->`` right before a block says why the tests only check it and do not run it.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NOT_RUN = re.compile(r"<!-- not run: (.+?) -->")


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    code: str
    not_run: str | None = None
    output: str | None = None

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page in order; a block of output belongs to the block before it."""
    found: list[Block] = []
    reason, directly_after = None, False
    for token in MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8")):
        if token.type == "fence":
            language = token.info.strip().split(" ")[0]
            if language == "text" and directly_after:
                found[-1] = replace(found[-1], output=token.content)
            else:
                found.append(Block(page, token.map[0] + 1, language, token.content, reason))
            reason, directly_after = None, True
            continue
        directly_after = False
        comment = NOT_RUN.search(token.content) if token.type == "html_block" else None
        reason = comment[1] if comment else None
    return found


def agrees(shown: str, printed: str) -> bool:
    """Equal but for blanks, and for one unit in the last digit of every number that is shown."""
    number = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
    if number.sub("#", shown).split() != number.sub("#", printed).split():
        return False
    pairs = zip(number.findall(shown), number.findall(printed), strict=True)
    return all(abs(float(one) - float(other)) <= 1.01 * _unit(one) for one, other in pairs)


def _unit(number: str) -> float:
    digits, _, power = number.partition("e")
    if "." not in number and not power:
        return 0.0  # whole numbers are counts
    return 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
