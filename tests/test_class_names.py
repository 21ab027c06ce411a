"""Names of classes: each has one meaning in the packages."""

import ast
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import plinth
import plinth_hw
import plinth_sim

PACKAGES = [Path(str(package.__file__)).parent for package in (plinth, plinth_sim, plinth_hw)]


def repeated(modules: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Names that several classes have, and the modules of these; ``modules``: names and sources."""
    places = defaultdict(list)
    for name, source in modules:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(name)
    return {name: modules_of for name, modules_of in places.items() if len(modules_of) > 1}


def test_a_class_name_has_one_meaning() -> None:
    assert not repeated((str(path.relative_to(package.parent)), path.read_text(encoding="utf-8"))
                        for package in PACKAGES for path in sorted(package.rglob("*.py")))


def test_a_name_of_two_classes_is_found() -> None:
    two = [("a", "class Side:\n    pass"), ("b", "def f():\n    class Side:\n        pass\n\nclass Other:\n    pass")]
    assert repeated(two) == {"Side": ["a", "b"]}
