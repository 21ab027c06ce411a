"""The SystemRDL of a die: what its compiler reads in it, and what the die answers."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from systemrdl import RDLCompiler
from systemrdl.node import AddrmapNode, RegNode
from tests.support.amaranth_sim import simulate
from tests.support.axi_lite import Master

from plinth_hw.die import Die
from plinth_hw.isa.__main__ import main
from plinth_hw.isa.formats import Q3_12
from plinth_hw.isa.operations import Engine, ErrorCode
from plinth_hw.isa.parameters import PRESETS, DieParameters, preset
from plinth_hw.isa.rdl import rdl
from plinth_hw.isa.register_map import register_map
from plinth_hw.isa.registers import Access, Register, Status

OKAY, SLVERR = 0, 2
ONES = (1 << 32) - 1
#: A small die with every register that a die can have.
ALL = preset("ndp-tiny-links", engines=frozenset({Engine.TRANSFER}), multiply_format=Q3_12, block_ram_words=1024,
             counters=2, die_bits=2, reduce_blocks=1)
#: One with none of the network's.
ALONE = preset("ndp-tiny", engines=frozenset({Engine.VECTOR}), ports=0, counters=2, die_bits=1)


def compiled(parameters: DieParameters, folder: Path) -> AddrmapNode:
    """The map as systemrdl-compiler has it."""
    path = folder / "die.rdl"
    path.write_text(rdl(parameters))
    compiler = RDLCompiler()
    compiler.compile_file(str(path))
    return compiler.elaborate().top


def registers(top: AddrmapNode) -> Iterator[RegNode]:
    """All registers, each of an array."""
    return (node for node in top.descendants(unroll=True) if isinstance(node, RegNode))


def mask(node: RegNode) -> int:
    """The bits of its fields."""
    return sum((1 << field.width) - 1 << field.low for field in node.fields())


def resets(node: RegNode) -> int | None:
    """Value after reset, if the map tells it."""
    values = [(field.get_property("reset"), field.low) for field in node.fields()]
    return None if any(value is None for value, _ in values) else sum(value << low for value, low in values)


@pytest.mark.parametrize("parameters", [*PRESETS.values(), ALL, ALONE], ids=[*PRESETS, "all", "alone"])
def test_the_map_is_as_declared(parameters: DieParameters, tmp_path: Path) -> None:
    """Addresses, widths, access and fields of every register; none overlap, which the compiler would refuse."""
    nodes = {node.absolute_address: node for node in registers(compiled(parameters, tmp_path))}
    wanted = {entry.address + entry.step * number: entry
              for entry in register_map(parameters) for number in range(entry.count)}
    assert set(nodes) == set(wanted)
    for address, entry in wanted.items():
        node = nodes[address]
        assert node.get_property("regwidth") == entry.bits and node.get_property("accesswidth") == 32
        assert [(field.inst_name, field.low, field.width) for field in node.fields()] == sorted(
            [(field.name, field.low, field.bits) for field in entry.fields], key=lambda field: field[1])
        assert node.has_sw_readable == (entry.access is not Access.WO)
        assert node.has_sw_writable == (entry.access is not Access.RO)
        assert resets(node) == (0 if entry.access is Access.WO else entry.reset)


def test_fields_and_codes_have_their_names(tmp_path: Path) -> None:
    top = compiled(ALL, tmp_path)
    status = top.find_by_path("STATUS")
    assert {field.inst_name: 1 << field.low for field in status.fields()} == {
        str(flag.name).lower(): flag.value for flag in Status}
    codes = top.find_by_path("ERROR_CODE.code").get_property("encode")
    assert {member.name: member.value for member in codes} == {code.name: code.value for code in ErrorCode}
    assert top.find_by_path("ENGINE_TRANSFER.BUSY").absolute_address == 0x800 + 3 * 0x80 + 0x10
    assert top.find_by_path("COUNTERS").array_dimensions == [2]


@pytest.mark.slow
@pytest.mark.parametrize("parameters", [ALL, ALONE], ids=["all", "alone"])
def test_the_die_answers_as_the_map_says(parameters: DieParameters, tmp_path: Path) -> None:
    """Every register is read, and written with ones and zeros in its fields; what lies between them answers SLVERR."""
    nodes = list(registers(compiled(parameters, tmp_path)))
    dut = Die(parameters)
    host = Master(dut.axil)
    taken = {node.absolute_address + offset for node in nodes for offset in range(0, node.size, 4)}

    async def read(ctx: Any, node: RegNode) -> int:
        if node.absolute_address == Register.WINDOW_DATA:
            await host.put(ctx, Register.WINDOW_ADDRESS, 0)
        return sum([await host.get(ctx, node.absolute_address + offset) << 8 * offset
                    for offset in range(0, node.size, 4)])

    async def write(ctx: Any, node: RegNode, value: int) -> None:
        if node.absolute_address == Register.WINDOW_DATA:
            await host.put(ctx, Register.WINDOW_ADDRESS, 0)
        for offset in range(0, node.size, 4):
            await host.put(ctx, node.absolute_address + offset, value >> 8 * offset & ONES)

    async def bench(ctx: Any) -> None:
        for node in nodes:
            initial, bits, reset = await read(ctx, node), mask(node), resets(node)
            assert initial & ~bits == 0, node.inst_name
            if node.has_sw_readable and reset is not None:
                assert initial == reset, node.inst_name
            if not node.has_sw_readable:
                await write(ctx, node, 0)
                assert initial == 0
            elif node.has_sw_writable:
                for value in (bits, 0, initial):
                    await write(ctx, node, value)
                    assert await read(ctx, node) == value, node.inst_name
            elif reset is not None:
                await write(ctx, node, ~initial)
                assert await read(ctx, node) == initial, node.inst_name
        assert await host.get(ctx, Register.STATUS) == 0
        for address in (*range(0, 0x200, 4), *range(0x200, 0x10000, 0x41C)):
            if address not in taken:
                assert await host.read(ctx, address) == (0, SLVERR), hex(address)
                assert await host.write(ctx, address, ONES) == SLVERR, hex(address)

    simulate(dut, bench)


@pytest.mark.slow
def test_a_header_and_pages_are_made_of_it(tmp_path: Path) -> None:
    """By the commands of docs/control.md; the header is C."""
    path, header = tmp_path / "die.rdl", tmp_path / "die.h"
    assert main(["--rdl", "ndp-tiny", str(path)]) == 0
    for arguments in (["c-header", str(path), "-o", str(header)], ["html", str(path), "-o", str(tmp_path / "pages")]):
        subprocess.run([sys.executable, "-m", "peakrdl", *arguments], check=True)
    subprocess.run(["gcc", "-fsyntax-only", "-xc", str(header)], check=True)
    assert "PLINTH_NDP_TINY__STATUS__BUSY_bm" in header.read_text()
    assert (tmp_path / "pages" / "index.html").exists()


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--rdl", "ndp-tiny", str(tmp_path)]) == 2
    assert f"error: {tmp_path}: Is a directory; name another file" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["--rdl", "nope", str(tmp_path / "die.rdl")])
    assert "invalid choice: 'nope'" in capsys.readouterr().err
