# amaranth: UnusedElaboratable=no
"""A die on the buses of a LiteX SoC.

::

    SoC bus --> AXI4-Lite ------> axil  +-----+
    interrupt <- EventManager <-- irq   | die | axi_0 -> single accesses, into a region -> SoC bus, or the coherent one
    self.links, driven or 0 ----> link_*+-----+

The registers are a slave of 64 KiB. The die's addresses start at 0; they are moved into a region of the SoC. LiteX's
own bridges take bursts apart into single accesses and cut these to the width of the bus. They answer every access with
OKAY, so that the die does not hear of an error of the bus.

The die's reset lasts for ``RESET_CYCLES`` at least; until its end the buses wait.

A die of several AXI4 ports moves them in step, beat by beat, and so needs a memory behind each that waits for no other:
a bus that serves one master after another would stop it. :class:`LiteXDie` has them all; :func:`add_die` takes dies of
one port.

Importing this module needs LiteX (1.0 or newer of its module API, as in the lock file); nothing else of
:mod:`plinth_hw` does.
"""

import re
from pathlib import Path
from typing import Any

from litex.gen import LiteXModule
from litex.soc.integration.soc import SoCRegion
from litex.soc.interconnect.axi import AXI2AXILite, AXIInterface, AXILiteInterface
from litex.soc.interconnect.csr_eventmanager import EventManager, EventSourceLevel
from migen import ClockSignal, If, Instance, ResetSignal, Signal

from plinth_hw import emit
from plinth_hw.control.registers import ADDRESS_BITS
from plinth_hw.die import STATUS_PINS, Die
from plinth_hw.isa.parameters import RESET_CYCLES, DieParameters

#: Channel and field of a pin of AXI.
_PIN = re.compile(r"(aw|ar|w|r|b)(\w+)")


class HeldReset(LiteXModule):
    """Makes the die's reset of that of a clock domain, which may last for one cycle.

    Members
    -------
    o : Signal
        From the first cycle of the domain's reset until ``RESET_CYCLES - 1`` cycles after the last one.
    """

    def __init__(self, clock_domain: str) -> None:
        self.o = Signal()
        left = Signal(max=RESET_CYCLES, reset=RESET_CYCLES - 1)
        self.comb += self.o.eq(ResetSignal(clock_domain) | (left != 0))
        sync = getattr(self.sync, clock_domain)
        sync += If(left != 0, left.eq(left - 1))


class LiteXDie(LiteXModule):
    """A die as an instance of its generated module.

    Parameters
    ----------
    platform : litex.build.generic_platform.GenericPlatform
        Gets the Verilog as a source.
    parameters : DieParameters
    verilog : Path
        What ``plinth verilog`` writes for them.
    clock_domain : str
        The domain of the die and its buses.

    Members
    -------
    registers : AXILiteInterface
        Slave.
    memory : list of AXIInterface
        A master for each AXI4 port.
    ev : EventManager
        ``ev.irq`` while the die is done or has an error, if enabled.
    links : dict of str to Signal
        The pins of the links by name, as ``link_in_0_valid``; inputs that are left alone are 0.

    Raises
    ------
    ValueError
        If the file does not hold the die; the message says how to write it.
    """

    def __init__(self, platform: Any, parameters: DieParameters, verilog: Path, clock_domain: str = "sys") -> None:
        top = parameters.name.replace("-", "_")
        if not verilog.is_file() or f"module {top}(" not in verilog.read_text(encoding="utf-8"):
            raise ValueError(f"{verilog} must hold module {top}: write it with plinth verilog {parameters.name} "
                             f"--out {verilog}")
        platform.add_source(str(verilog))
        pins = emit.ports(Die(parameters))
        widths = {port.name: len(port.value) for port in pins}
        self.registers = AXILiteInterface(data_width=32, address_width=32, clock_domain=clock_domain)
        self.memory = [AXIInterface(data_width=widths[f"axi_{port}_wdata"], address_width=32,
                                    id_width=widths[f"axi_{port}_awid"], clock_domain=clock_domain)
                       for port in range(parameters.axi_ports)]
        buses = {"axil": self.registers, **{f"axi_{port}": bus for port, bus in enumerate(self.memory)}}
        self.links = {}
        self.ev = EventManager()
        self.ev.die = EventSourceLevel(description="The die is done or has an error.")
        self.ev.finalize()

        self.held_reset = held_reset = HeldReset(clock_domain)
        connections: dict[str, Any] = {"i_clk": ClockSignal(clock_domain), "i_rst": held_reset.o}
        for port in pins:
            out, name, field = port.is_output, port.name, ""
            signal = Signal(len(port.value), name=name)
            connections[("o_" if out else "i_") + name] = signal
            if port.interface in buses and (match := _PIN.fullmatch(port.pin)):
                field = match[2]
                other = getattr(getattr(buses[port.interface], match[1]), field)
            elif name == "irq":
                other = self.ev.die.trigger
            else:
                if name not in STATUS_PINS:
                    self.links[name] = signal
                continue
            target, source = (other, signal) if out else (signal, other)
            # The buses may have left reset already: what they offer waits, and what the die offers from before is none.
            self.comb += target.eq(source & ~held_reset.o if field in ("valid", "ready") else source)
        self.die = Instance(top, **connections)


def add_die(soc: Any, parameters: DieParameters, verilog: Path, memory: SoCRegion, *, name: str = "die",
            origin: int | None = None) -> LiteXDie:
    """Put a die on the buses of a SoC, as ``soc.NAME`` with its events, and with an interrupt if the CPU takes any.

    Parameters
    ----------
    memory : SoCRegion
        The part of the SoC's memory that it works in: a power of two of bytes, at a multiple of itself. The die's
        ``MEMORY_WORDS`` must stay within it.
    origin : int or None
        Where the registers are; by default wherever LiteX finds room among what is not cached.

    Raises
    ------
    ValueError
        If the die has several AXI4 ports, or the region is not aligned; and as :class:`LiteXDie`.
    """
    if parameters.axi_ports != 1:
        raise ValueError(f"a die on a bus must have one AXI4 port, not {parameters.axi_ports}: connect the ports of a "
                         "LiteXDie to a memory each")
    if memory.size != memory.size_pow2 or memory.origin % memory.size:
        raise ValueError(f"memory must be a power of two of bytes at a multiple of itself, not {memory.size:#x} bytes "
                         f"at {memory.origin:#x}")
    die = LiteXDie(soc.platform, parameters, verilog)
    soc.add_module(name, die)
    soc.bus.add_slave(f"{name}_registers", die.registers,
                      SoCRegion(origin=origin, size=1 << ADDRESS_BITS, cached=False))
    (bursts,) = die.memory
    accesses = AXILiteInterface(data_width=bursts.data_width, address_width=bursts.address_width)
    soc.add_module(f"{name}_accesses", AXI2AXILite(bursts, accesses))
    getattr(soc, "dma_bus", soc.bus).add_master(f"{name}_memory", accesses, memory)
    if soc.irq.enabled:
        soc.irq.add(name, use_loc_if_exists=True)
    return die
