"""Layouts: what software packs is what Amaranth's shapes of the same declarations read."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Const, Format, Shape, Signal
from amaranth.lib import data

from plinth_hw.isa import descriptors, matrix_bodies, transfer_bodies, update_bodies, vector_body
from plinth_hw.isa.descriptors import Pointer, Record, TaskHeader
from plinth_hw.isa.layout import Code, Repeat, Struct, pack, signed, unpack, unsigned, width
from plinth_hw.isa.matrix_bodies import MatrixBody
from plinth_hw.isa.operations import Engine, ErrorCode
from plinth_hw.isa.vector_body import VectorBody
from plinth_hw.shapes import either, shape_of

DECLARED = (descriptors, matrix_bodies, transfer_bodies, update_bodies, vector_body)
LAYOUTS = [value for module in DECLARED for value in vars(module).values()
           if isinstance(value, type) and issubclass(value, Struct) and value is not Struct]


class Colour(Code, bits=5):
    RED = 0
    BLUE = 9


class Mixed(Struct):
    first: unsigned(3)
    offset: signed(10)
    colour: Colour
    pairs: Repeat(Pointer, 2)
    rest: unsigned(14)


def _fields(constant: Any) -> Any:
    """What Amaranth reads, as plain data."""
    if not isinstance(constant, data.Const):
        return constant
    keys = [key for key, _ in constant.shape()]
    if isinstance(constant.shape(), data.ArrayLayout):
        return [_fields(constant[key]) for key in keys]
    return {key: _fields(constant[key]) for key in keys}


def _values(unpacked: Any) -> Any:
    if isinstance(unpacked, list):
        return [_values(item) for item in unpacked]
    return ({name: _values(value) for name, value in vars(unpacked).items()} if isinstance(unpacked, Struct)
            else unpacked)


def _named(kind: Any, value: Any, trial: int) -> Any:
    """Fields of a struct, with members for codes: Amaranth refuses numbers without a name."""
    if isinstance(kind, Repeat):
        return [_named(kind.shape, item, trial) for item in value]
    if isinstance(kind, type) and issubclass(kind, Struct):
        return {name: _named(field.shape, getattr(value, name), trial) for name, field in kind.FIELDS.items()}
    return list(kind)[trial % len(kind)] if isinstance(kind, type) else value


@pytest.mark.parametrize("layout", [*LAYOUTS, Mixed], ids=lambda layout: layout.__name__)
def test_software_and_hardware_read_the_same_fields(layout: type[Struct]) -> None:
    rng = np.random.default_rng(7)
    shape = shape_of(layout)
    assert layout.BITS == Shape.cast(shape).width == 32 * (layout.BITS // 32)
    for trial in range(8):
        words = rng.integers(1 << 32, size=layout.BITS // 32, dtype=np.uint64)
        unpacked = unpack(layout, words)
        assert pack(layout, unpacked) == tuple(words)
        fields = _named(layout, unpacked, trial)
        packed = pack(layout, fields)
        bits = sum(word << 32 * place for place, word in enumerate(packed))
        assert shape.const(fields).as_bits() == bits
        assert _fields(shape.from_bits(bits)) == fields == _values(unpack(layout, packed))


def test_fields_that_are_not_given_are_zero_and_words_beyond_are_left_alone() -> None:
    record = unpack(Record, [*pack(Record, {"tag": 5, "engine": Engine.TRANSFER}), 1, 2, 3])
    assert (record.tag, record.engine, record.task, record.useful_macs) == (5, Engine.TRANSFER, 0, 0)
    assert pack(Mixed, {"pairs": [SimpleNamespace(offset=1, base=2)], "offset": -3}) == pack(
        Mixed, {"pairs": ({"offset": 1, "base": 2}, {}), "offset": -3})


def test_a_number_without_a_name_stays_a_number() -> None:
    assert unpack(TaskHeader, [13, *[0] * 7]).engine == 13
    assert pack(TaskHeader, {"engine": 13})[0] == 13


@pytest.mark.parametrize(("fields", "message"), [
    ({"m": 1 << 32}, r"MatrixBody\.m must be from 0 to 4294967295, not 4294967296"),
    ({"m": -1}, r"MatrixBody\.m must be from 0 to"),
    ({"window_row": 1 << 15}, r"window_row must be from -32768 to 32767, not 32768"),
    ({"a": {"offset": 1 << 28}}, r"MatrixBody\.a\.offset must be from 0"),
    ({"a": {"word": 0}}, r"MatrixBody\.a has no field 'word'"), ({"rows": 3}, r"MatrixBody has no field 'rows'")])
def test_what_does_not_fit_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pack(MatrixBody, fields)


def test_a_field_takes_integers_and_its_own_code() -> None:
    with pytest.raises(ValueError, match=r"VectorBody\.immediates has 4 places, not 5"):
        pack(VectorBody, {"immediates": [0] * 5})
    with pytest.raises(TypeError, match=r"TaskHeader\.engine is not a ErrorCode"):
        pack(TaskHeader, {"engine": ErrorCode.NONE})
    with pytest.raises(TypeError, match="float"):
        pack(TaskHeader, {"tag": 1.0})


def test_codes_in_hardware() -> None:
    shape = shape_of(ErrorCode)
    assert shape_of(ErrorCode) is shape and Shape.cast(shape) == Shape(width(ErrorCode))
    signal = Signal(shape)
    assert signal.as_value().shape() == Shape(8)
    assert Const.cast(shape.const(ErrorCode.REMOTE)).value == 7 and shape.from_bits(7) is ErrorCode.REMOTE
    assert len(either(Signal(), ErrorCode.NONE, ErrorCode.REMOTE)) == 8
    assert isinstance(shape.format(signal, ""), Format.Enum)
    for other in (Engine.MATRIX, 1, Signal(8), Signal(shape_of(Engine))):
        with pytest.raises(TypeError, match="ErrorCode can only be compared with one"):
            signal == other  # noqa: B015
        with pytest.raises(TypeError, match="ErrorCode can only be compared with one"):
            signal != other  # noqa: B015
    with pytest.raises(ValueError, match="99"):
        shape.const(99)
