"""Imports run down: what a room of the software may know."""

import ast
from pathlib import Path

import pytest

import plinth

ROOT = Path(plinth.__path__[0])
#: A room, and the other rooms of ``plinth`` that it may import.
BELOW = {
    "model": {"errors"},
    "driver": {"errors", "model"},
    "backends": {"errors", "model", "driver"},
}


def imported(path: Path) -> set[str]:
    """Rooms of ``plinth`` that a file imports, at its top or within functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("plinth.")}
    return found


@pytest.mark.parametrize("room", BELOW)
def test_a_room_imports_only_rooms_below_it(room: str) -> None:
    files = sorted((ROOT / room).rglob("*.py")) or [ROOT / f"{room}.py"]
    for path in files:
        assert imported(path) <= BELOW[room] | {room}, path
