"""All mutants of a source file: one small change each, as a replacement of a piece of its text."""

import ast
import copy
import difflib
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

ARITHMETIC: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
COMPARISON: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
EXTREMES = {
    "min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "amax": "amin", "amin": "amax",
    "any": "all", "all": "any", "clamp_min": "clamp_max", "floor": "ceil", "ceil": "floor", "argmin": "argmax",
    "argmax": "argmin", "zeros": "ones", "ones": "zeros", "zeros_like": "ones_like", "ones_like": "zeros_like",
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """``source[start:end]`` becomes ``new``."""

    module: str
    kind: str
    line: int
    start: int
    end: int
    old: str
    new: str
    place: str
    """The text of its line, and the how manieth of equal changes to equal lines it is."""

    @property
    def key(self) -> str:
        """A name that survives changes elsewhere in the file."""
        text = f"{self.module}:{self.kind}:{self.old}:{self.new}:{self.place}"
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def apply(self, source: str) -> str:
        data = source.encode()
        return (data[: self.start] + self.new.encode() + data[self.end :]).decode()

    def diff(self, source: str) -> list[str]:
        """The changed lines."""
        lines = difflib.unified_diff(source.splitlines(), self.apply(source).splitlines(), lineterm="", n=0)
        return [line for line in lines if line[:3] not in ("---", "+++") and not line.startswith("@@")]


class _Finder(ast.NodeVisitor):
    """Collects (kind, node, replacement). Types, docstrings, decorators, messages and assertions are left alone."""

    def __init__(self, ignored: frozenset[str]):
        self.ignored = ignored
        self.found: list[tuple[str, ast.AST, ast.AST | str]] = []

    def add(self, kind: str, node: ast.AST, new: ast.AST | str) -> None:
        self.found.append((kind, node, new))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        defaults = [d for d in (*node.args.defaults, *node.args.kw_defaults) if d is not None]
        for part in (*defaults, *node.body):
            self.visit(part)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in node.body:
            self.visit(part)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        names = {target.id for target in node.targets if isinstance(target, ast.Name)}
        if not names & self.ignored:
            self.visit(node.value)
            for target in node.targets:
                self.visit(target)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.add("statement", node, "pass")
        if type(node.op) in ARITHMETIC:
            changed = copy.deepcopy(node)
            changed.op = ARITHMETIC[type(node.op)]()
            self.add("arithmetic", node, changed)
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self.add("statement", node, "pass")

    def visit_Assert(self, node: ast.Assert) -> None:
        return

    def visit_Import(self, node: ast.Import) -> None:
        return

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        return

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        return

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self.add("statement", node, "pass")
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None:
            if not (isinstance(node.value, ast.Constant) and node.value.value is None):
                self.add("return", node, "return None")
            self.visit(node.value)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        other = ARITHMETIC.get(type(node.op))
        text = isinstance(node.left, ast.Constant | ast.JoinedStr) and isinstance(getattr(node.left, "value", ""), str)
        if other is not None and not text:
            changed = copy.deepcopy(node)
            changed.op = other()
            self.add("arithmetic", node, changed)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for place, operator in enumerate(node.ops):
            changed = copy.deepcopy(node)
            changed.ops[place] = COMPARISON[type(operator)]()
            self.add("comparison", node, changed)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        changed = copy.deepcopy(node)
        changed.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        self.add("boolean", node, changed)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not | ast.USub | ast.Invert):
            self.add("unary", node, node.operand)
        self.generic_visit(node)

    def _negated(self, test: ast.expr) -> None:
        if not isinstance(test, ast.UnaryOp | ast.Compare):  # whose own mutants say the same
            self.add("condition", test, ast.UnaryOp(ast.Not(), test))

    def visit_If(self, node: ast.If) -> None:
        self._negated(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._negated(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negated(node.test)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self.add("constant", node, repr(not value))
        elif isinstance(value, int):
            self.add("constant", node, repr(value + 1))
            self.add("constant", node, repr(value - 1) if value > 0 else "(-1)")
        elif isinstance(value, float):
            self.add("constant", node, repr(value + 1))
            self.add("constant", node, repr(value / 2 if value else -1.0))

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in EXTREMES:
            changed = copy.deepcopy(node)
            if isinstance(changed.func, ast.Attribute):
                changed.func.attr = EXTREMES[name]
            elif isinstance(changed.func, ast.Name):
                changed.func.id = EXTREMES[name]
            self.add("extreme", node, changed)
        if name == "range":
            place = 0 if len(node.args) == 1 else 1
            for operator in (ast.Add(), ast.Sub()):
                changed = copy.deepcopy(node)
                changed.args[place] = ast.BinOp(changed.args[place], operator, ast.Constant(1))
                self.add("range", node, changed)
        elif len(node.args) >= 2 and not any(isinstance(a, ast.Starred) for a in node.args[:2]):
            first, second = node.args[:2]
            if ast.dump(first) != ast.dump(second) and name not in {*EXTREMES, "isinstance", "fma", "getattr"}:
                changed = copy.deepcopy(node)
                changed.args[:2] = [changed.args[1], changed.args[0]]
                self.add("arguments", node, changed)
        self.visit(node.func)
        for part in (*node.args, *(keyword.value for keyword in node.keywords)):
            self.visit(part)

    def visit_Slice(self, node: ast.Slice) -> None:
        for name in ("lower", "upper"):
            bound = getattr(node, name)
            if bound is not None and not isinstance(bound, ast.Constant | ast.UnaryOp):
                self.add("slice", bound, ast.BinOp(bound, ast.Add(), ast.Constant(1)))
        self.generic_visit(node)


def mutants_of(module: str, source: str, ignored: frozenset[str] = frozenset()) -> list[Mutant]:
    """Every mutant of the file, in the order of its text; assignments to ``ignored`` names have none."""
    lines = source.encode().splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    finder = _Finder(ignored)
    finder.visit(ast.parse(source))
    return sorted(_placed(module, source.encode(), starts, finder), key=lambda m: (m.start, m.end, m.new))


def _placed(module: str, data: bytes, starts: list[int], finder: _Finder) -> Iterator[Mutant]:
    seen = set()
    equal: Counter[tuple[str, str, str, str]] = Counter()
    for kind, node, new in finder.found:
        assert isinstance(node, ast.expr | ast.stmt), "only these are added"
        assert node.end_lineno is not None and node.end_col_offset is not None, "ast.parse sets them"  # noqa: PT018
        start, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        old = data[start:end].decode()
        text = new if isinstance(new, str) else ast.unparse(ast.fix_missing_locations(new))
        if isinstance(node, ast.expr) and not isinstance(new, str):
            text = f"({text})"
        if text != old and (start, end, text) not in seen:
            seen.add((start, end, text))
            line = data[starts[node.lineno - 1] : starts[node.lineno]].decode().strip()
            equal[kind, old, text, line] += 1
            place = f"{line}:{equal[kind, old, text, line]}"
            yield Mutant(module, kind, node.lineno, start, end, old, text, place)
