"""ONNX files that nobody exported: good ones with fields changed end in a network or in one line.

Bytes are changed by `tests/support/hostile.py`, as at every door.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tests.support.onnx_models import every_operator, model, node

from plinth.errors import UserError
from plinth.network.onnx.operators import OPERATORS
from plinth.network.onnx.reader import read_onnx
from plinth.partition.graph import from_network

Generator = np.random.Generator
#: Numbers at the edges of what is asked for.
EDGES = (0, 1, -1, 2, 3, 7, 64, 65536, 65537, 1 << 31, (1 << 31) - 1, 1 << 62, (1 << 63) - 1, -(1 << 63))


def scalars(message: Any) -> Iterator[tuple[Any, Any]]:
    """Every field that is set, with the message that holds it, all the way down."""
    for field, value in message.ListFields():
        yield message, field
        if field.type == field.TYPE_MESSAGE:
            for inner in value if field.is_repeated else [value]:
                yield from scalars(inner)


def another(field: Any, old: Any, names: list[str], random: Generator) -> Any:
    """Another value for a field."""
    if field.type == field.TYPE_STRING:
        texts = [*names, *OPERATORS, "", "\x1b[2J", "n" * 100_000, "\u202e"]
        return texts[int(random.integers(len(texts)))]
    if field.type == field.TYPE_BYTES:
        return bytes(old[:int(random.integers(len(old) + 1))]) if random.integers(2) else b"SAME_LOWER"
    if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        return float(random.choice([0.0, -1.0, np.inf, np.nan]))
    if field.type == field.TYPE_ENUM:
        return int(random.choice(list(field.enum_type.values_by_number)))
    most = (1 << (31 if field.type == field.TYPE_INT32 else 63)) - 1
    return max(-most - 1, min(EDGES[int(random.integers(len(EDGES)))], most))


def change_fields(proto: onnx.ModelProto, random: Generator) -> None:
    """One to four fields that are cleared, emptied, doubled, moved or set to something else."""
    for _ in range(int(random.integers(1, 5))):
        choice = list(scalars(proto.graph))
        message, field = choice[int(random.integers(len(choice)))]
        names = [str(name) for entry in proto.graph.node for name in (*entry.input, *entry.output)]
        if not field.is_repeated:
            if field.type == field.TYPE_MESSAGE or not random.integers(4):
                message.ClearField(field.name)
            else:
                setattr(message, field.name, another(field, getattr(message, field.name), names, random))
            continue
        values = getattr(message, field.name)
        place = int(random.integers(len(values)))
        match int(random.integers(3)):
            case 0:
                del values[place]
            case 1:
                values.insert(int(random.integers(len(values) + 1)), values[place])
            case _ if field.type == field.TYPE_MESSAGE:
                values.insert(0, values.pop(place))
            case _:
                values[place] = another(field, values[place], names, random)


def ends_well(path: Path, content: bytes) -> bool:
    """Whether the file is read; if not, the refusal is one line that names the file."""
    path.write_bytes(content)
    try:
        from_network(read_onnx(path))
    except UserError as error:
        text = str(error)
        assert text.startswith(str(path))
        assert all(line.isprintable() and len(line) <= 1000 for line in (text, *error.notes)) and len(error.notes) <= 21
        return False
    return True


@pytest.mark.parametrize("cases", [500, pytest.param(20_000, marks=pytest.mark.long)])
def test_changed_fields_end_in_a_network_or_in_one_line(tmp_path, cases: int) -> None:
    random = np.random.default_rng(cases)
    models = every_operator()
    read = 0
    for case in range(cases):
        changed = onnx.ModelProto()
        changed.CopyFrom(models[case % 2])
        change_fields(changed, random)
        read += ends_well(tmp_path / "net.onnx", changed.SerializeToString())
    assert 0.02 * cases < read < 0.6 * cases, "changes are too small or too large to find anything"


def test_the_models_that_are_changed_are_good(tmp_path) -> None:
    models = every_operator()
    assert all(ends_well(tmp_path / "net.onnx", proto.SerializeToString()) for proto in models)
    assert {entry.op_type for proto in models for entry in proto.graph.node} == set(OPERATORS)


@pytest.mark.parametrize("outputs", [[], [""], ["", "out"]])
@pytest.mark.parametrize("operator", OPERATORS)
def test_outputs_without_a_name_are_refused(tmp_path, operator: str, outputs: list[str]) -> None:
    for proto in every_operator():
        for entry in proto.graph.node:
            if entry.op_type == operator:
                changed = onnx.ModelProto()
                changed.CopyFrom(proto)
                of = next(other for other in changed.graph.node if other.name == entry.name)
                del of.output[:]
                of.output.extend(outputs)
                assert not ends_well(tmp_path / "net.onnx", changed.SerializeToString())


def test_an_input_without_a_name_is_refused(tmp_path) -> None:
    proto = model([node("Relu", ["x"], "out")])
    proto.graph.input[0].name = ""
    with pytest.raises(UserError, match="input has no name"):
        (tmp_path / "net.onnx").write_bytes(proto.SerializeToString())
        read_onnx(tmp_path / "net.onnx")
