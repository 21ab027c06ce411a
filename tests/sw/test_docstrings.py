"""First sentences of docstrings: they say what a thing is or does, and send nobody elsewhere for that."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import plinth

SOURCES = Path(plinth.__file__).parent
#: Openings that tell a reader nothing by themselves.
EMPTY = re.compile(r"(Of|As of|As there|As shown|For people|For programs|Likewise)\b|As :\w+:|"
                   r"(The same|Its|It|All|Both|None|Nothing|Relative|Zeros|Any|One|Where it lies( on a die)?)\.|"
                   r"The same (of|over|at|as|where|with)\b")
#: Rooms with kinds of layers, which name themselves by a formula or by their node.
LAYERS = ("network/layers.py", "partition/graph.py", "step/layers/")


def docstrings(node: ast.AST, names: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Names of what is public within a module, and their docstrings."""
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, (ast.FunctionDef, ast.ClassDef)) and not inner.name.startswith("_"):
            text = ast.get_docstring(inner)
            if text is not None:
                yield ".".join((*names, inner.name)), " ".join(text.split())
            yield from docstrings(inner, (*names, inner.name))


def test_first_sentences_say_something() -> None:
    empty = [f"{path.relative_to(SOURCES)}: {name}: {text[:60]}" for path in sorted(SOURCES.rglob("*.py"))
             if not str(path.relative_to(SOURCES)).startswith(LAYERS)
             for name, text in docstrings(ast.parse(path.read_text(encoding="utf-8"))) if EMPTY.match(text)]
    assert not empty, "\n".join(empty)


@pytest.mark.parametrize("text", ["Of a die.", "As :class:`Costs`; but shorter.", "The same of messages.", "Nothing.",
                                  "Where it lies on a die.", "Its."])
def test_what_says_nothing_is_found(text: str) -> None:
    assert EMPTY.match(text)
