"""The Verilog of dies, its digests, and what goes wrong with the tools that make it."""

import hashlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

from plinth.errors import UserError
from plinth_hw.installation import cache_root
from plinth_hw.isa.frames import BridgeParameters, bit_cycles
from plinth_hw.isa.parameters import DieParameters


@contextmanager
def tool_errors() -> Iterator[None]:
    """Around what runs tools and keeps their results in the cache.

    Raises
    ------
    UserError
        If a tool is missing or fails, or the cache cannot be written.
    """
    from plinth_hw import tools
    from plinth_sim.rtl import verilator

    try:
        yield
    except (tools.ToolError, verilator.SimulatorError) as error:
        raise UserError(str(error)) from error
    except OSError as error:
        raise UserError(f"{error.filename or cache_root()}: {error.strerror}; make that folder writable or set "
                        "PLINTH_BUILD to another one") from error


def verilog_digest(verilog: Mapping[str, str]) -> str:
    """SHA-256 of the text of Verilog files, by their names."""
    return hashlib.sha256("".join(verilog[name] for name in sorted(verilog)).encode()).hexdigest()


def die_digest(parameters: DieParameters) -> str:
    """SHA-256 of a die's Verilog.

    Raises
    ------
    UserError
        If a tool is missing or fails, or the build folder cannot be written.
    """
    from plinth_sim.rtl.elaborate import die_verilog

    with tool_errors():
        return verilog_digest(die_verilog(parameters))


def export(parameters: DieParameters, path: Path, kinds: Collection[str], *, clock_mhz: float,
           baud: int | None = None) -> dict[Path, str]:
    """Files of a die for other tools: its Verilog, and what stands beside it.

    Parameters
    ----------
    path : Path
        Of the Verilog.
    kinds : collection of str
        What stands beside it (:data:`plinth_hw.integrate.package.KINDS`).
    clock_mhz : float
        In MHz, of constraints and of the serial line.
    baud : int or None
        Rate of the serial line of a host bridge in front of the die, whose memory then is behind its registers as
        well; None: there is none.

    Raises
    ------
    UserError
        If the line is too fast for the clock; and as :func:`die_digest`.
    """
    from plinth_hw.integrate import package
    from plinth_sim.rtl.elaborate import die_verilog, module_name

    bridge = None
    if baud is not None:
        parameters = parameters.with_window
        try:
            bridge = BridgeParameters(cycles_per_bit=bit_cycles(Fraction(round(clock_mhz * 1_000_000)), baud))
        except ValueError as error:
            raise UserError(str(error)) from None
    with tool_errors():
        (text,) = die_verilog(parameters, "cells", bridge).values()
    made = package.texts(text, parameters, bridge, path.stem, module_name(parameters, bridge), kinds, clock_mhz)
    return {path.with_name(name) if name != f"{path.stem}.v" else path: own for name, own in made.items()}


def synthesizable_verilog(parameters: DieParameters) -> str:
    """The Verilog of :func:`export`, alone.

    Raises
    ------
    UserError
        As :func:`die_digest`.
    """
    (text,) = export(parameters, Path(f"{parameters.name}.v"), (), clock_mhz=1.0).values()
    return text


def export_places(path: Path, kinds: Collection[str]) -> list[Path]:
    """The files that :func:`export` makes.

    Raises
    ------
    UserError
        If other tools would take their names apart.
    """
    from plinth_hw.integrate import package

    try:
        return [path, *(path.with_name(name) for name in package.names(path.stem, kinds)[1:])]
    except ValueError as error:
        raise UserError(f"{path}: {error}") from None


def harness_digest() -> str:
    """SHA-256 of what drives the dies of a co-simulation: its memory, links and registers."""
    from plinth_sim import rtl

    files = (path for path in Path(rtl.__file__).resolve().parent.glob("*.*") if path.is_file())
    return verilog_digest({path.name: path.read_text(encoding="utf-8") for path in files})
