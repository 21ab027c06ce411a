"""No signal is wider than what it is given: in none of some dies does its highest bit ever change."""

import gc
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from amaranth.hdl import Fragment, Module, Signal, Value
from amaranth.hdl._ir import build_netlist
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from tests.support.constant_bits import EITHER, ConstantBits

import plinth_hw
from plinth_hw.die import Die, make_engine
from plinth_hw.emit import Emission, ports
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import preset
from plinth_hw.memory.block_ram import BlockMemory

HARDWARE = Path(next(iter(plinth_hw.__path__)))
_LINE = re.compile(r":\d+ ")
#: A die with all that one may have, and engines of others.
DESIGNS: list[Callable[[], wiring.Component]] = [
    lambda: Die(preset("ndp-tiny", transforms=((2, 3),), codes=True, sets_routes=True, link_phits=1, counters=256)),
    lambda: make_engine(Engine.VECTOR, preset("fpga-tiny")), lambda: make_engine(Engine.OPTIMISER, preset("fpga-tiny")),
    lambda: make_engine(Engine.MATRIX, preset("hypar-tiny")), lambda: BlockMemory(preset("fpga-ulx3s"), 64)]
#: Signals that are as wide as something else of theirs, by file and name, and why.
WIDE = {
    "['port'] of 6 bits": "numbers of a router's ports, as ERROR_INFO has them",
    "comm/align.py end": "places of flits of one word have a bit, too",
    "comm/codes/regions.py need": "as wide as what is taken of a string at most",
    "comm/tile_walk.py size_at": "fields of sizes lie in the lower half of those that are kept",
    "control/dispatch.py operations": "as many as there may be codes of 4 bits",
    **{f"lib/choice.py {name}": "a register for any value that it is given" for name in (
        "cause_4", "cause_5", "cause_6", "cause_7", "cause_8", "immediate_1")},
    "matrix/row_stationary/ifmap_feeder.py first": "as wide as the places that begin with it",
    **{f"memory/axi.py axi_0__{name}": "as AXI4 has it" for name in ("arlen", "awlen")},
    **{f"memory/scratchpad.py {name}__capacity": "as other clients of the same port ask" for name in (
        "a_read", "b_read")},
    "vector/argument.py product_low": "the constant that it is a product with begins with zeros",
    **{f"vector/function.py moved_{places}": "registers of one width, moved down by 1 to 3" for places in (1, 2, 3)},
}


class _Parts(Emission):
    """Collects the components of which a die is placed together."""

    def __init__(self) -> None:
        super().__init__()
        self.components: dict[str, wiring.Component] = {}

    def register(self, module: str, component: wiring.Component, make: Callable[[], str]) -> None:
        self.components.setdefault(module, component)


def parts(component: wiring.Component) -> Iterator[tuple[wiring.Component, _Parts]]:
    platform, done = _Parts(), 0
    platform.components["top"] = component
    while done < len(platform.components):
        yield list(platform.components.values())[done], platform
        done += 1


def bits(component: wiring.Component, platform: object) -> Iterator[tuple[str, list[int]]]:
    """What the bits of signals may be: of those with fields each field, known by its name and width, of others all,
    known by place and name. Codes of an enumeration, and registers for any value, have the widths of what they hold."""
    netlist = build_netlist(Fragment.get(component, platform), ports=[port.value for port in ports(component)])
    found = ConstantBits(netlist)
    for signal, value in netlist.signals.items():
        fields: dict[Any, Any] = netlist.signal_fields.get(signal, {})
        leaves = [path for path in fields if path and not any(
            path != other and other[:len(path)] == path for other in fields)]
        if leaves:
            for path in leaves:
                name = [part for part in path if isinstance(part, str)][-1:]
                yield f"{name} of {len(fields[path].value)} bits", [found[net] for net in fields[path].value]
        elif () not in fields or fields[()].enum_name is None:
            yield f"{_file(signal)}:{signal.src_loc[1]} {signal.name}", [found[net] for net in value]


def _file(signal: Signal) -> str:
    path = Path(signal.src_loc[0])
    return path.relative_to(HARDWARE).as_posix() if path.is_relative_to(HARDWARE) else path.name


def too_wide(seen: dict[str, list[list[int]]]) -> list[str]:
    """Names of what has a highest bit that is 0 wherever not all bits are constant, and is so somewhere."""
    result = []
    for name, values in seen.items():
        live = [value for value in values if len(value) > 1 and EITHER in value]
        if live and all(value[-1] == 1 for value in live):
            result.append(_LINE.sub(" ", name))
    return sorted(result)


def test_no_signal_is_wider_than_what_it_is_given() -> None:
    seen: dict[str, list[list[int]]] = {}
    gc.disable()  # which would look through netlists over and over
    try:
        for make in DESIGNS:
            for component, platform in parts(make()):
                for name, value in bits(component, platform):
                    seen.setdefault(name, []).append(value)
    finally:
        gc.enable()
    assert len(seen) > 1500
    assert too_wide(seen) == sorted(WIDE)


class _Wide(wiring.Component):
    """Of what it makes of an input of two bits, ``wide``, ``count`` and ``member`` are a bit too wide."""

    def __init__(self) -> None:
        super().__init__({"i": In(2), "member": Out(3), "fits": Out(3)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        wide, count, turns, either = (Signal(width, name=name) for width, name in (
            (4, "wide"), (3, "count"), (3, "turns"), (2, "either")))
        m.d.sync += [wide.eq(self.i + 1), turns.eq(turns + 1)]
        with m.If(self.i[0]):
            m.d.sync += count.eq(Value.cast(self.i) ^ count[:2])
        with m.If(self.i[1]):
            m.d.comb += either.eq(2)
        m.d.comb += [self.member.eq(self.i & count[:2]), self.fits.eq(self.i + self.i)]
        return m


def test_what_is_a_bit_too_wide_is_found() -> None:
    seen: dict[str, list[list[int]]] = {}
    for name, value in bits(_Wide(), None):
        seen.setdefault(name.split()[-1], []).append(value)
    assert too_wide(seen) == ["count", "member", "wide"]
