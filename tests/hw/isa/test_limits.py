"""Every field at, below and beyond what it holds: parameters of dies, registers, tasks, records and packets."""

from collections.abc import Iterator
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest
from amaranth.hdl import Signal

from plinth_hw.comm.flit import address_fields, flit_layout
from plinth_hw.isa import registers as regs
from plinth_hw.isa.descriptors import Pointer, Record, TaskHeader
from plinth_hw.isa.layout import Code, Number, Repeat, Struct, pack, unpack, width
from plinth_hw.isa.limits import GROUPS, PARAMETERS, check_register, field_bits, rate_word, register_name, reset_value
from plinth_hw.isa.matrix_bodies import MatrixBody, RowStationaryBody
from plinth_hw.isa.operations import OPERATIONS, CollectiveOperation, Engine
from plinth_hw.isa.packets import Sideband
from plinth_hw.isa.parameters import PRESETS, preset
from plinth_hw.isa.registers import ARRAYS, CounterSteps, ErrorInfo, LinkRate, Register, WaitCounter
from plinth_hw.isa.transfer_bodies import TransferBody
from plinth_hw.isa.update_bodies import CollectiveBody
from plinth_hw.isa.vector_body import VectorBody, VectorInstruction, VectorMove, VectorRegion

LAYOUTS = (TaskHeader, Pointer, MatrixBody, RowStationaryBody, VectorBody, VectorRegion, VectorMove, VectorInstruction,
           CollectiveBody, TransferBody, Record, ErrorInfo, LinkRate, WaitCounter, CounterSteps, Sideband)
#: The largest and next values of each parameter of a die, as changes of a preset; and the field that refuses more.
SIZES = {
    "die_bits": ("ndp-tiny", lambda most: {"die_bits": most}, "TaskHeader.remote_die of 10 bits", 10, 11),
    "counters": ("ndp-tiny", lambda most: {"counters": most}, "TaskHeader.advance of 8 bits", 256, 512),
    "address_bits": ("ndp-tiny", lambda most: {"address_bits": most}, "TASK_BASE of 32 bits", 32, 33),
    "ports": ("ndp-tiny", lambda most: {"ports": most}, "LINKS_UP of 5 bits", 32, 33),
    "reduce_blocks": ("ndp-tiny", lambda most: {"reduce_blocks": most}, "CollectiveBody.message of 8 bits", 256, 512),
    "log2 of interleave": (
        "ndp-tiny", lambda most: {"interleave": 1 << most, "output_buffer_words": 16 << most},
        "MatrixBody.interleave_m_log2 of 4 bits", 15, 16),
    "rows of a row-stationary machine": (
        "hypar-tiny", lambda most: {"rows": most, "columns": 8, "beat_words": 256, "axi_ports": 8},
        "RowStationaryBody.set_rows of 8 bits", 255, 256),
    "rows x columns": (
        "ndp-tiny", lambda most: {"rows": most // 257, "columns": 257, "beat_words": 512, "axi_ports": 16,
                                  "output_buffer_words": 8 * 65792}, "CounterSteps.issued_macs of 16 bits",
        255 * 257, 256 * 257),
    "words that an engine moves in a cycle": (
        "ndp-tiny", lambda most: {"beat_words": most // 2, "axi_ports": most // 64},
        "CounterSteps.words of 12 bits", 2048, 4096),
    "axi_ports": ("ndp-tiny", lambda most: {"axi_ports": most, "beat_words": 512}, "Ports.axi_ports of 8 bits",
                  128, 256),
    "block_ram_words": ("ndp-tiny", lambda most: {"block_ram_words": most}, "BLOCK_RAM_WORDS of 32 bits",
                        (1 << 32) - 256, 1 << 32),
    "lines of a half of the vector scratchpad": (
        "ndp-tiny", lambda most: {"vector_buffer_words": 4 * most}, "VectorRegion.line of 16 bits", 65536, 65537),
}


@pytest.mark.parametrize("limit", PARAMETERS, ids=lambda limit: f"{limit.what}: {limit.field}")
def test_every_limit_is_what_its_field_holds(limit: Any) -> None:
    """Below and at the limit nothing is said, beyond it the field, its width and the value."""
    for value in (limit.most - 1, limit.most, limit.most + 1):
        asked = SimpleNamespace(what=limit.what)
        bounded = type(limit)(limit.what, lambda die, value=value: value, limit.field, limit.bits, limit.most)
        if value <= limit.most:
            bounded.check(asked)
        else:
            with pytest.raises(ValueError) as error:
                bounded.check(asked)
            for part in (limit.what, limit.field, f"of {limit.bits} bits", f"not {value}"):
                assert part in str(error.value)


@pytest.mark.parametrize("what", SIZES)
def test_dies_have_no_more_than_their_fields_hold(what: str) -> None:
    name, changes, field, most, beyond = SIZES[what]
    preset(name, **changes(most))
    with pytest.raises(ValueError) as error:
        preset(name, **changes(beyond))
    assert f"{what} must be at most " in str(error.value)
    assert f"for {field}, not {beyond}" in str(error.value)


def test_every_parameter_of_the_table_is_tried() -> None:
    """But one, which no memory port is wide enough for."""
    assert {limit.what for limit in PARAMETERS} - set(SIZES) == {"columns of a row-stationary machine"}
    for parameters in PRESETS.values():
        for limit in PARAMETERS:
            limit.check(parameters)


def test_the_narrowest_field_is_named() -> None:
    with pytest.raises(ValueError, match=r"counters must be at most 256 for TaskHeader\.advance of 8 bits, not 1024"):
        preset("ndp-demo", counters=1024)
    with pytest.raises(ValueError, match="counters must be a power of two, not 48"):
        preset("ndp-demo", counters=48)


def numbers(layout: type[Struct]) -> Iterator[tuple[str, Any, Any]]:
    """Name, shape and what wraps a value, of every number and code of a layout."""
    for name, field in layout.FIELDS.items():
        shape = field.shape
        if isinstance(shape, Repeat):
            if isinstance(shape.shape, Number):
                yield name, shape.shape, lambda value, length=shape.length: [0] * (length - 1) + [value]
        elif isinstance(shape, Number) or issubclass(shape, Code):
            yield name, shape, lambda value: value


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)
def test_every_field_of_every_layout_holds_its_range_and_no_more(layout: type[Struct]) -> None:
    count = 0
    for name, shape, wrapped in numbers(layout):
        signed = isinstance(shape, Number) and shape.signed
        least, most = (-1 << shape.bits - 1, (1 << shape.bits - 1) - 1) if signed else (0, (1 << shape.bits) - 1)
        for value in (least, most - 1, most):
            words = pack(layout, {name: wrapped(value)})
            got = getattr(unpack(layout, words), name)
            assert (got[-1] if isinstance(got, list) else getattr(got, "value", got)) == value
            assert sum(word.bit_count() for word in words) == (value & (1 << shape.bits) - 1).bit_count()
        for value in (least - 1, most + 1):
            with pytest.raises(ValueError, match=rf"\.{name}\b.* must be from {least} to {most}, not {value}"):
                pack(layout, {name: wrapped(value)})
        count += 1
    assert count


@pytest.mark.parametrize(("address", "name", "most"), [
    (Register.DIE, "DIE", 255), (Register.DIES, "DIES", 256), (Register.TASK_BASE, "TASK_BASE", (1 << 20) - 1),
    (Register.RECORD_BASE, "RECORD_BASE", (1 << 20) - 1), (Register.LINK_RATE, "LINK_RATE", (1 << 16) - 1),
    (Register.WATCHDOG, "WATCHDOG", (1 << 32) - 1), (Register.MEMORY_WORDS, "MEMORY_WORDS", (1 << 32) - 1),
    (regs.BASES + 60, "BASES[15]", (1 << 20) - 1), (regs.ROUTES + 8, "ROUTES[2]", 2),
    (regs.COUNTERS + 4 * 63, "COUNTERS[63]", (1 << 32) - 1), (regs.COUNTER_BASES, "COUNTER_BASES[0]", (1 << 32) - 1)])
def test_registers_hold_their_range_and_no_more(address: int, name: str, most: int) -> None:
    die = preset("ndp-tiny", address_bits=20, ports=3)
    assert register_name(address) == name
    for value in (0, most - 1, most):
        check_register(address, value, die)
    for value in (-1, most + 1):
        with pytest.raises(ValueError) as error:
            check_register(address, value, die)
        assert str(error.value) == f"{name} must be from 0 to {most} ({most.bit_length()} bits), not {value}"


def test_registers_can_hold_what_they_hold_after_reset() -> None:
    die = preset("ndp-tiny", address_bits=20, ports=3)
    assert reset_value(Register.WATCHDOG, die) == 100_000_000
    assert (reset_value(Register.DIES, die), reset_value(Register.DIE, die)) == (256, 0)
    for register in Register:
        check_register(register, reset_value(register, die), die)


def test_rates_of_links_fit_their_register() -> None:
    assert rate_word(Fraction(255, 254)) == 255 | 254 << 8
    with pytest.raises(ValueError, match=r"link_rate cannot be 255/256: .*denominator must be from 0 to 255, not 256"):
        rate_word(Fraction(255, 256))


def test_arrays_of_registers_lie_apart() -> None:
    """In one map of words with the single registers."""
    taken = [int(register) for register in Register]
    for array in ARRAYS.values():
        taken += range(array.first, array.first + array.step * array.count, 4)
    assert len(set(taken)) == len(taken)
    assert max(taken) < 1 << 16


def test_declarations_agree() -> None:
    """Codes have the room that fields and registers give them."""
    assert ARRAYS["BASES"].count == 1 << field_bits(Pointer, "base")
    assert max(engine.value for engine in Engine) < ARRAYS["ENGINES"].count
    assert all(len(operations) <= 1 << field_bits(TaskHeader, "operation") for operations in OPERATIONS.values())
    assert len(CollectiveOperation) <= 1 << field_bits(TaskHeader, "operation")
    assert GROUPS == 16
    assert Sideband.BITS == width(Record.FIELDS["task"].shape) == 32
    for parameters in PRESETS.values():
        flit = flit_layout(parameters)
        assert flit["destination"].width == parameters.die_bits <= flit["chunk"].width
        for name in Sideband.FIELDS:
            assert flit[name].width == field_bits(Sideband, name)
        assert len(address_fields(Signal(flit))) == Sideband.BITS
