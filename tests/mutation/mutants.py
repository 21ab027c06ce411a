"""Small mutants of a source file, found in its syntax tree and made by splicing its text.

What is mutated: comparisons, arithmetic, whole numbers (one more, one less), truth values, conditions (negated),
statements (dropped; statements of a list that an Amaranth domain takes one by one), arguments (neighbours swapped),
``any`` and ``all``, ``min`` and ``max``. What is left alone, since no test should care: docstrings, annotations of
types, messages of errors, names, assertions, output, ``strict=`` of ``zip``, in which order ``einsum`` contracts,
registers that a reset may leave as they are, a lower negative size of a ``reshape``, which is the one that is left over
all the same, and which of the first two arguments of ``np.clip``, ``gcd`` and ``swapaxes`` comes first: they commute.
"""

import ast
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

_BINARY: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "//"), ast.Div: ("/", "*"), ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "//"), ast.Pow: ("**", "*"), ast.LShift: ("<<", ">>"), ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"), ast.BitXor: ("^", "|")}
_COMPARISON: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: (r"is\s+not", "is"), ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in")}
#: Functions and methods that take another's place.
_CALLS = {"any": "all", "all": "any", "min": "max", "max": "min", "maximum": "minimum", "minimum": "maximum"}
#: Calls whose arguments may change places without a difference, or with nothing but a crash.
_UNORDERED = {"min", "max", "maximum", "minimum", "isinstance", "issubclass", "getattr", "setattr", "hasattr",
              "connect", "swapaxes"}
#: Functions whose first two arguments commute: clipping to a lower bound takes the larger of both.
_COMMUTING = {"np.clip", "gcd", "math.gcd"}
#: Calls that only talk.
_OUTPUT = {"print", "warn", "debug", "info", "warning", "error", "log", "exception"}
#: Keywords whose values are names, checks of our own code, or hints.
_KEYWORDS = {"name", "src_loc_at", "strict", "stacklevel", "optimize", "reset_less"}


@dataclass(frozen=True)
class Mutant:
    """A file with one small change: bytes ``start`` to ``stop`` become ``new``."""

    #: Relative to the root of the tree, with slashes.
    file: str
    line: int
    #: Qualified name of the innermost function around it; empty outside of functions.
    function: str
    kind: str
    #: The lines it touches, as they are and as they become, without indentation.
    before: str
    after: str
    start: int
    stop: int
    new: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What it is known by, wherever its line moves."""
        return self.file, self.function, self.before, self.after

    def applied(self, source: bytes) -> bytes:
        """The mutated file."""
        return source[:self.start] + self.new.encode() + source[self.stop:]


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _called(node: ast.Call) -> str:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _is_domain(node: ast.AST) -> bool:
    """``m.d.sync`` or ``m.d[name]``."""
    return (isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.value, ast.Attribute)
            and node.value.attr == "d")


class _Finder(ast.NodeVisitor):
    """Collects the mutants of one file."""

    def __init__(self, file: str, source: bytes):
        self.file, self.source = file, source
        self.found: list[Mutant] = []
        self._starts = [0]
        for row in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(row))
        self._scope: list[str] = []
        #: Negative sizes of arrays.
        self._sizes: set[int] = set()
        self._function = ""

    def span(self, node: Any) -> tuple[int, int]:
        """Bytes of a node."""
        return (self._starts[node.lineno - 1] + node.col_offset,
                self._starts[node.end_lineno - 1] + node.end_col_offset)

    def text(self, node: Any) -> str:
        start, stop = self.span(node)
        return self.source[start:stop].decode()

    def add(self, kind: str, start: int, stop: int, new: str) -> None:
        first = self.source.rfind(b"\n", 0, start) + 1
        last = self.source.find(b"\n", stop)
        last = len(self.source) if last < 0 else last
        before = self.source[first:last].decode()
        after = (self.source[first:start] + new.encode() + self.source[stop:last]).decode()
        strip = re.compile(r"^[ \t]+|[ \t]+$", re.MULTILINE)
        self.found.append(Mutant(self.file, self.source.count(b"\n", 0, start) + 1, self._function, kind,
                                 strip.sub("", before), strip.sub("", after), start, stop, new))

    def swap_operator(self, kind: str, left: ast.AST, right: ast.AST, pattern: str, new: str) -> None:
        """Replace the operator between two operands; comments between them are no operators."""
        start, stop = self.span(left)[1], self.span(right)[0]
        gap = re.sub(rb"#[^\n]*", lambda match: b" " * len(match[0]), self.source[start:stop])
        match = re.search(pattern.encode(), gap)
        assert match is not None, (self.file, gap)
        self.add(kind, start + match.start(), start + match.end(), new)

    # What is entered, and what is not.

    def _enter(self, node: Any, name: str, *, function: bool) -> Iterator[None]:
        outer = self._function
        self._scope.append(name)
        if function:
            self._function = ".".join(self._scope)
            self._scope.append("<locals>")
        yield
        del self._scope[-2 if function else -1:]
        self._function = outer

    def visit_FunctionDef(self, node: Any) -> None:
        if node.name in ("__repr__", "__str__"):
            return
        for default in [*node.args.defaults, *(value for value in node.args.kw_defaults if value)]:
            self.visit(default)
        for _ in self._enter(node, node.name, function=True):
            for statement in node.body:
                self.visit(statement)

    def visit_AsyncFunctionDef(self, node: Any) -> None:
        self.visit_FunctionDef(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for keyword in node.keywords:
            self.visit(keyword)
        for _ in self._enter(node, node.name, function=False):
            for statement in node.body:
                self.visit(statement)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if self._scope and not self._function and isinstance(node.annotation, ast.Call):
            self.visit(node.annotation)  # the shape of a member or a field
        if node.value is not None:
            self.visit(node.value)

    def visit_Assert(self, node: ast.Assert) -> None:
        """Not entered."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Not entered."""

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg not in _KEYWORDS:
            self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        self.add("statement", *self.span(node), "pass")

    # What is mutated.

    def visit_If(self, node: ast.If) -> None:
        names = {name.id for name in ast.walk(node.test) if isinstance(name, ast.Name)}
        if not names & {"TYPE_CHECKING", "__name__"}:
            self.negate(node.test)
            self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.negate(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self.negate(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for condition in node.ifs:
            self.negate(condition)
        self.generic_visit(node)

    def negate(self, test: ast.expr) -> None:
        if not isinstance(test, ast.UnaryOp | ast.Compare):  # those have mutants of their own
            self.add("condition", *self.span(test), f"not ({self.text(test)})")

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not | ast.Invert):
            self.add("condition", *self.span(node), self.text(node.operand))
        elif isinstance(node.op, ast.USub):
            self.add("arithmetic", *self.span(node), self.text(node.operand))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in pairwise(node.values):
            self.swap_operator("condition", left, right, rf"\b{old}\b", new)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if _is_text(node.left) or _is_text(node.right):
            return
        union = isinstance(node.op, ast.BitOr) and isinstance(node.right, ast.Constant) and node.right.value is None
        if type(node.op) in _BINARY and not union:
            old, new = _BINARY[type(node.op)]
            self.swap_operator("arithmetic", node.left, node.right, re.escape(old), new)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for (left, right), operator in zip(pairwise([node.left, *node.comparators]), node.ops, strict=True):
            old, new = _COMPARISON[type(operator)]
            self.swap_operator("comparison", left, right, old, new)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self.add("truth", *self.span(node), str(not node.value))
        elif isinstance(node.value, int):
            text = self.text(node)
            for value in (*([] if id(node) in self._sizes else [node.value + 1]),
                          *([node.value - 1] if node.value else [])):
                self.add("constant", *self.span(node), hex(value) if text.startswith("0x") else str(value))

    def visit_Call(self, node: ast.Call) -> None:
        called = _called(node)
        if called in _OUTPUT:
            return
        if called == "reshape":
            self._sizes |= {id(argument.operand) for argument in node.args
                            if isinstance(argument, ast.UnaryOp) and isinstance(argument.op, ast.USub)}
        if called in ("If", "Elif") and node.args:
            if not isinstance(node.args[0], ast.UnaryOp | ast.Compare):
                self.add("condition", *self.span(node.args[0]), f"~({self.text(node.args[0])})")
        elif called in _CALLS:
            stop = self.span(node.func)[1]
            self.add("call", stop - len(called), stop, _CALLS[called])
        if called not in _UNORDERED:
            for left, right in list(pairwise(node.args))[self.text(node.func) in _COMMUTING:]:
                texts = self.text(left), self.text(right)
                if texts[0] != texts[1] and not any(isinstance(argument, ast.Starred) or _is_text(argument)
                                                    for argument in (left, right)):
                    start, stop = self.span(left)[0], self.span(right)[1]
                    between = self.source[self.span(left)[1]:self.span(right)[0]].decode()
                    self.add("arguments", start, stop, texts[1] + between + texts[0])
        self.generic_visit(node)

    def drop(self, node: ast.stmt) -> None:
        self.add("statement", *self.span(node), "pass")

    def visit_Expr(self, node: ast.Expr) -> None:
        talks = isinstance(node.value, ast.Call) and _called(node.value) in _OUTPUT
        if not talks and not isinstance(node.value, ast.Constant):
            self.drop(node)
            self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if any(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets):
            self.drop(node)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if _is_domain(node.target):
            elements = node.value.elts if isinstance(node.value, ast.List) else []
            if len(elements) < 2:
                self.drop(node)
            for element, after in pairwise(elements):
                self.add("statement", self.span(element)[0], self.span(after)[0], "")
        else:
            self.drop(node)
            if type(node.op) in _BINARY and not _is_text(node.value):
                old, new = _BINARY[type(node.op)]
                self.swap_operator("arithmetic", node.target, node.value, re.escape(old + "="), new + "=")
        self.visit(node.value)

    def visit_Continue(self, node: ast.Continue) -> None:
        self.drop(node)

    def visit_Break(self, node: ast.Break) -> None:
        self.drop(node)


def mutants(file: str, source: bytes) -> list[Mutant]:
    """All mutants of a source file, those that do not compile or change nothing included."""
    finder = _Finder(file, source)
    finder.visit(ast.parse(source))
    return finder.found


def draw(root: Path, files: Sequence[str], seed: int) -> Iterator[Mutant]:
    """The mutants of some files that compile, in an order that the seed decides.

    Every mutant's place follows from the seed and its own text alone, so that a change in one file leaves the order of
    the others' mutants as it was.
    """
    ranked: list[tuple[str, Mutant]] = []
    for file in files:
        counts: dict[tuple[str, str, str, str], int] = {}
        for mutant in mutants(file, (root / file).read_bytes()):
            counts[mutant.key] = number = counts.get(mutant.key, 0) + 1
            text = "\0".join((str(seed), *mutant.key, str(number)))
            ranked.append((hashlib.sha256(text.encode()).hexdigest(), mutant))
    for _, mutant in sorted(ranked, key=lambda pair: pair[0]):
        source = (root / mutant.file).read_bytes()
        try:
            changed = ast.dump(ast.parse(mutant.applied(source)))
        except SyntaxError:
            continue
        if changed != ast.dump(ast.parse(source)):
            yield mutant
