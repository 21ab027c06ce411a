"""The Verilog of dies, its digests, and what goes wrong with the tools that make it."""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from plinth.errors import UserError
from plinth_hw.installation import cache_root
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


def synthesizable_verilog(parameters: DieParameters) -> str:
    """Verilog of a die for other tools, as ``python -m plinth_hw`` writes it.

    Raises
    ------
    UserError
        As :func:`die_digest`.
    """
    from plinth_sim.rtl.elaborate import die_verilog

    with tool_errors():
        (text,) = die_verilog(parameters, "cells").values()
    return text


def harness_digest() -> str:
    """SHA-256 of what drives the dies of a co-simulation: its memory, links and registers."""
    from plinth_sim import rtl

    files = (path for path in Path(rtl.__file__).resolve().parent.glob("*.*") if path.is_file())
    return verilog_digest({path.name: path.read_text(encoding="utf-8") for path in files})
