"""Makes the arrays of devices that drivers run on: golden dies, co-simulated ones, and dies behind serial lines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from plinth.array.routes import Link
from plinth.driver.device import DeviceArray
from plinth.driver.driver import RemoteDieError
from plinth.errors import UserError
from plinth.runtime.verilog import tool_errors, verilog_digest
from plinth_hw.board.manifest import Manifest, ManifestError
from plinth_hw.isa.frames import LEAST_CYCLES, BridgeParameters
from plinth_hw.isa.parameters import DieParameters
from plinth_sim.golden.array import GoldenArray
from plinth_sim.golden.transport import Transport

if TYPE_CHECKING:
    from plinth.driver.serial import SerialArray
    from plinth_sim.rtl.cosim import CosimArray
    from plinth_sim.rtl.pseudo_terminal import PseudoTerminals
    from plinth_sim.rtl.remote_links import Lockstep


@dataclass(frozen=True)
class WaveWindow:
    """Which die's signals to record, from which cycle to which."""

    die: int
    start: int
    stop: int
    path: Path


def golden_array(parameters: DieParameters, dies: int, memory_words: int,
                 transport: Transport | None = None) -> DeviceArray:
    """Dies on the golden model: all of them, or, with a transport, those of this process among several.

    Raises
    ------
    ValueError
        If the processes of the transport do not own each of the dies once, or one owns none.
    """
    return GoldenArray(parameters, dies, memory_words, transport=transport)


def cosim_array(parameters: DieParameters, dies: int, memory_words: int, *, threads: int | None = None,
                links: Iterable[Link | tuple[int, int, int, int, int]] | None = None, window: WaveWindow | None = None,
                bit_errors: float = 0.0, bridge: BridgeParameters | None = None, lockstep: Lockstep | None = None
                ) -> tuple[CosimArray, str]:
    """Dies on the compiled co-simulation, and the SHA-256 of their Verilog: all of them, or, joined to others, those of
    this process, once every process has built its own.

    Parameters
    ----------
    links : iterable of (die, port out, die, port in) or (die, port out, die, port in, cycles of latency), or None
        Default: a ring.
    window : Window or None
        What to record as waves.
    bit_errors : float
        Share of the bits on links with a link layer that are wrong.
    bridge : BridgeParameters or None
        Of a host bridge in front of each die.
    lockstep : Lockstep or None
        Joins the processes that share the dies. Collective.

    Raises
    ------
    UserError
        If a tool is missing or fails, the build folder cannot be written, or other processes have other dies or links.
    RemoteDieError
        If another process is gone.
    """
    from plinth_sim.rtl.cosim import CosimArray, Faults, Waves
    from plinth_sim.rtl.elaborate import die_verilog

    links = None if links is None else list(links)
    waves = Waves(window.die, window.start, window.stop, window.path) if window else None
    with tool_errors():
        verilog = die_verilog(parameters, bridge=bridge)
        array = CosimArray(parameters, dies, memory_words, threads=threads, links=links, verilog=verilog, waves=waves,
                           bridge=bridge, faults=Faults(flip=bit_errors) if bit_errors else None, lockstep=lockstep)
    digest = verilog_digest(verilog)
    if lockstep is not None:
        try:
            told = lockstep.meet((digest, memory_words, links, bit_errors), patient=True)
        except ConnectionError as error:
            raise RemoteDieError(str(error)) from error
        if any(other != told[0] for other in told):
            raise UserError("processes have different dies, links or memories; start all with the same network, "
                            "array and options, of the same version")
    return array, digest


def pseudo_terminals(parameters: DieParameters, dies: int, memory_words: int, *, threads: int | None = None
                     ) -> PseudoTerminals:
    """Dies on the compiled co-simulation, joined to a ring, each with a host bridge at the end of a serial line that
    programs see as a port of the system.

    Raises
    ------
    UserError
        As :func:`cosim_array`.
    """
    from plinth_sim.rtl.pseudo_terminal import PseudoTerminals

    return PseudoTerminals(cosim_array(parameters.with_window, dies, memory_words, threads=threads,
                                       bridge=BridgeParameters(cycles_per_bit=LEAST_CYCLES))[0])


def simulated_serial_array(parameters: DieParameters, memory_words: int, cycles_per_bit: Fraction, clock_hz: int
                           ) -> tuple[SerialArray, CosimArray]:
    """A die on the compiled co-simulation behind a serial line, in simulated time, and the simulation.

    Raises
    ------
    UserError
        As :func:`cosim_array`.
    """
    from plinth.driver.serial import SerialArray
    from plinth_sim.rtl.simulated_port import SimulatedPort

    parameters = parameters.with_window
    array = cosim_array(parameters, 1, memory_words, bridge=BridgeParameters(cycles_per_bit=cycles_per_bit))[0]
    return SerialArray(parameters, [SimulatedPort(array, cycles_per_second=clock_hz)]), array


def serial_array(parameters: DieParameters, ports: Iterable[tuple[str, int]]) -> SerialArray:
    """Dies behind serial lines, each by the name of its port and the line's rate in baud.

    Raises
    ------
    LineError
        If a port cannot be opened, or there is no host bridge behind it.
    """
    from plinth.driver.serial import SerialArray, SystemPort

    return SerialArray(parameters, [SystemPort(name, baud) for name, baud in ports])


def bitstream_digest(folder: Path, parameters: DieParameters) -> int:
    """VERILOG_DIGEST of the bitstream that ``make bitstream`` has put into a folder.

    Raises
    ------
    UserError
        If it is of other parameters or not what its manifest describes, or there is none.
    """
    try:
        manifest = Manifest.read(folder)
        manifest.check(folder, parameters)
    except ManifestError as error:
        raise UserError(str(error)) from error
    return manifest.verilog_digest
