"""What is kept from network to network is bounded."""

import ast
import pickle
from pathlib import Path

import plinth
from plinth.machine import known
from plinth.machine.copies import Copy
from plinth.machine.die import DieCycles
from plinth.machine.known import Known
from plinth.machine.products import Product
from plinth_hw.isa.parameters import preset

#: Rooms whose values are of shapes, plans or networks.
ROOMS = ("array", "lower", "machine", "network", "partition", "plan", "predict", "simulate", "step")


def test_one_more_than_the_limit_empties_it() -> None:
    known: Known[int, str] = Known(3)
    for key in range(3):
        known[key] = str(key)
    known[1] = "other"
    assert known == {0: "0", 1: "other", 2: "2"}
    known[3] = "3"
    assert known == {3: "3"} and pickle.loads(pickle.dumps(known)) == known


def test_a_die_keeps_what_a_large_network_asks_for() -> None:
    die = DieCycles(preset("ndp-demo"))
    assert {kept.most for kept in (die._products, die._stages, die._copies, die.known_products, die.known_vectors)} == {
        32_768}


def test_a_die_forgets_what_it_costs(monkeypatch) -> None:
    """Any number of shapes; what is asked again is the same."""
    monkeypatch.setattr(known.Known, "__init__", lambda self: setattr(self, "most", 20))
    die = DieCycles(preset("ndp-demo"))
    products = [Product("fprop", 8, rows, 8) for rows in range(1, 61)]
    copies = [Copy.part(rows, 8) for rows in range(1, 61)]
    first = [(die.product(product), die.copy(copy)) for product, copy in zip(products, copies, strict=True)]
    assert 0 < len(die._products) <= 20 and 0 < len(die._copies) <= 20
    assert first == [(die.product(product), die.copy(copy)) for product, copy in zip(products, copies, strict=True)]


def test_nothing_of_shapes_is_kept_without_a_limit() -> None:
    unbounded = []
    for path in (path for room in ROOMS for path in (Path(plinth.__file__).parent / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.ImportFrom) and (
                node.module == "functools") else []
            endless = isinstance(node, ast.keyword) and node.arg == "maxsize" and (
                isinstance(node.value, ast.Constant) and node.value.value is None)
            if "cache" in names or endless:
                unbounded.append(path)
    assert unbounded == []
