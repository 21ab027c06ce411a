"""A LiteX SoC with a die, without a CPU: a test bench is the master of its bus by the pins ``host_*``."""

import logging
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from litex.build.generic_platform import GenericPlatform, Pins
from litex.build.io import CRG
from litex.soc.integration.soc import SoCRegion
from litex.soc.integration.soc_core import SoCMini
from litex.soc.interconnect.axi import AXILiteInterface

from plinth_hw.integrate.litex_die import add_die
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import preset

# Or whoever looks at an attribute of all modules, as hypothesis does, waits two seconds: it is told to be old.
sys.modules["litex.soc.interconnect.stream_sim"].__dict__["noticed"] = True

TOP = "soc"
#: A die that is quickly built, and its memory.
DIE = preset("ndp-tiny", engines=frozenset({Engine.MATRIX}), rows=2, columns=2, output_buffer_words=64, ports=1,
             reduce_blocks=1)
MEMORY_WORDS = 1 << 10
#: Byte addresses of the die's registers, and of the memory that it works in.
REGISTERS, MEMORY = 0x3000_0000, 0x4000_0000


@dataclass(frozen=True)
class Soc:
    """Verilog of a SoC, by file name, and what its software must know."""

    sources: dict[str, str]
    #: Byte address of the register that enables the die's interrupt.
    enable: int


class _Soc(SoCMini):
    """Memory, a die, and a bus master on pins."""

    def __init__(self, platform: Any, verilog: Path, bus: dict[str, Any]):
        self.crg = CRG(platform.request("clk"), platform.request("rst"))
        super().__init__(platform, 100e6, ident="", **bus)
        host = AXILiteInterface(data_width=32, address_width=32)
        platform.add_extension(host.get_ios("host"))
        self.comb += host.connect_to_pads(platform.request("host"), mode="slave")
        self.bus.add_master("host", host)
        memory = SoCRegion(origin=MEMORY, size=4 * MEMORY_WORDS)
        self.add_ram("main_ram", memory.origin, memory.size)
        die = add_die(self, DIE, verilog, memory, origin=REGISTERS)
        self.comb += platform.request("irq").eq(die.ev.irq)


def make(verilog: Path, **bus: Any) -> Soc:
    """The SoC; ``bus`` are ``bus_standard`` and ``bus_data_width`` of LiteX."""
    logging.disable(logging.INFO)  # LiteX tells of every step
    try:
        platform = GenericPlatform("", [(name, 0, Pins(1)) for name in ("clk", "rst", "irq")], name=TOP)
        soc = _Soc(platform, verilog, bus)
        soc.finalize()
        output = platform.get_verilog(soc, name=TOP)
    finally:
        logging.disable(logging.NOTSET)
    # Without the date, by which builds would never be the same, and without the empty file that memory begins with.
    text = re.sub(r"^// +(Date|Auto-Generated).*\n|^\t\$readmemh.*\n", "", output.main_source, flags=re.MULTILINE)
    sources = {Path(path).name: Path(path).read_text() for path, *_ in platform.sources} | {f"{TOP}.v": text}
    events = soc.csr.regions["die"]
    offset = next(index for index, csr in enumerate(events.obj) if csr.name == "ev_enable")
    return Soc(sources, events.origin + 4 * offset)
