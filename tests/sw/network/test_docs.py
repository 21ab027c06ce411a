"""The tables of docs/networks.md say what the code says."""

from collections.abc import Callable
from pathlib import Path

import pytest

from plinth.array.array import ARRAYS
from plinth.network.layers import KINDS
from plinth.network.onnx.operators import OPERATORS
from plinth.network.zoo import NETWORKS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "networks.md"


def kinds() -> list[str]:
    rows = ["| kind | settings | inputs |", "| --- | --- | --- |"]
    for kind, layer_class in KINDS.items():
        defaults = layer_class.defaults()
        settings = [f"`{key}`" if key not in defaults else f"`{key}` ({str(form.dump(defaults[key])).lower()})"
                    for key, form in layer_class.forms().items()]
        low, high = layer_class.arity
        rows.append(f"| `{kind}` | {', '.join(settings) or '-'} | {low if low == high else f'{low} to {high}'} |")
    return rows


def zoo() -> list[str]:
    rows = ["| network | input | output | weighted layers | parameters | multiply-adds |",
            "| --- | --- | --- | ---: | ---: | ---: |"]
    return rows + [f"| `{name}` | {network.input} | {network.output} | {len(network.weighted)} | "
                   f"{network.parameters:,} | {network.macs:,} |" for name, network in NETWORKS.items()]


def arrays() -> list[str]:
    rows = ["| array | topology | dies | links | ports | words a cycle | MHz | preset |",
            "| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |"]
    return rows + [f"| `{name}` | {array.topology} | {array.dies} | {len(array.links)} | {array.ports} | "
                   f"{array.rate * array.ring_links} | {array.clock_mhz} | `{array.preset}` |"
                   for name, array in ARRAYS.items()]


def operators() -> list[str]:
    rows = ["| operator | becomes | supported | inputs | attributes |", "| --- | --- | --- | --- | --- |"]
    for name, operator in OPERATORS.items():
        low, high = operator.inputs
        inputs = str(low) if low == high else f"{low} to {high}"
        attributes = ", ".join(f"`{key}`" for key in sorted(operator.attributes))
        rows.append(f"| {name} | {operator.becomes} | {operator.supported} | {inputs} | {attributes or '-'} |")
    return rows


TABLES: dict[str, Callable[[], list[str]]] = {"kinds": kinds, "zoo": zoo, "arrays": arrays, "operators": operators}


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_current(name: str) -> None:
    _, _, behind = PAGE.read_text(encoding="utf-8").partition(f"<!-- {name} -->\n")
    assert behind.split("\n\n")[0].splitlines() == TABLES[name]()


def test_every_operator_says_what_of_it_is_supported() -> None:
    assert [name for name, operator in OPERATORS.items() if not operator.becomes or not operator.supported] == []
