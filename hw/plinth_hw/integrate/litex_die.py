# amaranth: UnusedElaboratable=no
"""A die on the buses of a LiteX SoC.

::

    SoC bus --> AXI4-Lite ------> axil  +-----+  axi_0 -> region 0 --+
    interrupt <- EventManager <-- irq   | die |  axi_1 -> region 1 --+--> SoC bus, or the CPU's coherent one
    self.links, driven or 0 ----> link_*+-----+  ...

The registers are a slave of 64 KiB. Each AXI4 port of the die is a master of its own, whose addresses start at 0; they
are moved into a region of the SoC. On an AXI4 bus as wide as the port bursts pass as they are; before any other bus
they are taken apart into single accesses, and these are cut to its width, by LiteX's own bridges. Those answer every
access with OKAY, so that the die does not hear of an error of such a bus.

Importing this module needs LiteX (1.0 or newer of its module API, as in the lock file); nothing else of
:mod:`plinth_hw` does.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from amaranth.lib import wiring
from litex.gen import LiteXModule
from litex.soc.integration.soc import SoCRegion
from litex.soc.interconnect.axi import AXI2AXILite, AXIInterface, AXILiteInterface
from litex.soc.interconnect.csr_eventmanager import EventManager, EventSourceLevel
from migen import ClockSignal, Instance, ResetSignal, Signal

from plinth_hw import emit
from plinth_hw.control.registers import ADDRESS_BITS
from plinth_hw.die import Die
from plinth_hw.isa.parameters import DieParameters

#: Channel and field of a pin of AXI.
_PIN = re.compile(r"(aw|ar|w|r|b)(\w+)")


class LiteXDie(LiteXModule):
    """A die as an instance of its generated module.

    Parameters
    ----------
    platform : litex.build.generic_platform.GenericPlatform
        Gets the Verilog as a source.
    parameters : DieParameters
    verilog : Path
        What ``python -m plinth_hw`` writes for them.
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
        The pins of the links by name, as ``link_in_0__valid``; inputs that are left alone are 0.

    Raises
    ------
    ValueError
        If the file does not hold the die; the message says how to write it.
    """

    def __init__(self, platform: Any, parameters: DieParameters, verilog: Path, clock_domain: str = "sys") -> None:
        top = parameters.name.replace("-", "_")
        if not verilog.is_file() or f"module {top}(" not in verilog.read_text(encoding="utf-8"):
            raise ValueError(f"{verilog} must hold module {top}: write it with python -m plinth_hw {parameters.name} "
                             f"--out {verilog}")
        platform.add_source(str(verilog))
        pins = emit.ports(Die(parameters))
        widths = {name: len(value) for name, _, value in pins}
        self.registers = AXILiteInterface(data_width=32, address_width=32, clock_domain=clock_domain)
        self.memory = [AXIInterface(data_width=widths[f"axi_{port}__wdata"], address_width=32,
                                    id_width=widths[f"axi_{port}__awid"], clock_domain=clock_domain)
                       for port in range(parameters.axi_ports)]
        buses = {"axil": self.registers, **{f"axi_{port}": bus for port, bus in enumerate(self.memory)}}
        self.links = {}
        self.ev = EventManager()
        self.ev.die = EventSourceLevel(description="The die is done or has an error.")
        self.ev.finalize()

        connections: dict[str, Any] = {"i_clk": ClockSignal(clock_domain), "i_rst": ResetSignal(clock_domain)}
        for name, member, value in pins:
            out = member.flow is wiring.Out
            interface, _, field = name.partition("__")
            signal = Signal(len(value), name=name)
            connections[("o_" if out else "i_") + name] = signal
            if interface in buses and (match := _PIN.fullmatch(field)):
                other = getattr(getattr(buses[interface], match[1]), match[2])
            elif name == "irq":
                other = self.ev.die.trigger
            else:
                self.links[name] = signal
                continue
            self.comb += other.eq(signal) if out else signal.eq(other)
        self.die = Instance(top, **connections)


def add_die(soc: Any, parameters: DieParameters, verilog: Path, memory: Sequence[SoCRegion], *, name: str = "die",
            origin: int | None = None) -> LiteXDie:
    """Put a die on the buses of a SoC, as ``soc.NAME`` with its events, and with an interrupt if the CPU takes any.

    Parameters
    ----------
    memory : sequence of SoCRegion
        For each AXI4 port, the part of the SoC's memory that it works in: a power of two of bytes, at a multiple of
        itself. The die's ``MEMORY_WORDS`` must stay within them.
    origin : int or None
        Where the registers are; by default wherever LiteX finds room among what is not cached.

    Raises
    ------
    ValueError
        If there are not as many regions as ports, or one is not aligned; and as :class:`LiteXDie`.
    """
    if len(memory) != parameters.axi_ports:
        raise ValueError(f"memory must be a region for each of {parameters.axi_ports} AXI4 ports, not {len(memory)}")
    for region in memory:
        if region.size != region.size_pow2 or region.origin % region.size:
            raise ValueError(f"memory must be a power of two of bytes at a multiple of itself, not {region.size:#x} "
                             f"bytes at {region.origin:#x}")
    die = LiteXDie(soc.platform, parameters, verilog)
    soc.add_module(name, die)
    soc.bus.add_slave(f"{name}_registers", die.registers,
                      SoCRegion(origin=origin, size=1 << ADDRESS_BITS, cached=False))
    bus = getattr(soc, "dma_bus", soc.bus)
    for port, (master, region) in enumerate(zip(die.memory, memory, strict=True)):
        if (bus.standard, bus.data_width) != ("axi", master.data_width):
            lite = AXILiteInterface(data_width=master.data_width, address_width=master.address_width)
            soc.add_module(f"{name}_beats_{port}", AXI2AXILite(master, lite))
            master = lite
        bus.add_master(f"{name}_memory_{port}", master, region)
    if soc.irq.enabled:
        soc.irq.add(name, use_loc_if_exists=True)
    return die
