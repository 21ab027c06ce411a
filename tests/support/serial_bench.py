"""A bridge with a small register file behind it, in the compiled harness; a line between host and bridge that fails."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect

from plinth_hw import emit
from plinth_hw.control.registers import AXI4LiteSignature
from plinth_hw.host.bridge import Bridge
from plinth_hw.isa import registers as regs
from plinth_hw.isa.frames import BridgeParameters
from plinth_hw.isa.parameters import preset
from plinth_hw.isa.registers import Register
from plinth_sim.rtl.cosim import CosimArray
from plinth_sim.rtl.power_up import PowerUp
from plinth_sim.rtl.simulated_port import SimulatedPort

#: Words of memory behind the window.
MEMORY_WORDS = 4096
#: Accesses of WINDOW_DATA since reset, well done.
ACCESSES = Register.TASK_BASE


class Window(wiring.Component):
    """ID, VERSION, and a memory behind WINDOW_ADDRESS and WINDOW_DATA; each channel waits as long as it likes."""

    def __init__(self) -> None:
        super().__init__({"axil": In(AXI4LiteSignature())})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        axil = self.axil
        m.submodules.memory = memory = Memory(shape=32, depth=MEMORY_WORDS, init=[])
        write, read = memory.write_port(granularity=8), memory.read_port(domain="comb")
        place, accesses, noise = Signal(32), Signal(32), Signal(16, init=0xACE1)
        there, address, moves = Signal(), Signal(16), Signal()
        m.d.sync += noise.eq(Cat(noise[1:], noise[0] ^ noise[2] ^ noise[3] ^ noise[5]))
        m.d.comb += [
            there.eq(place < MEMORY_WORDS), write.addr.eq(place), read.addr.eq(place),
            axil.awready.eq(axil.awvalid & noise[0]), axil.wready.eq(axil.wvalid & noise[1]),
            axil.arready.eq(axil.arvalid & noise[2] & ~axil.rvalid),
        ]
        has_address, has_data = Signal(), Signal()
        data, strobe = Signal(32), Signal(4)
        with m.If(axil.awready):
            m.d.sync += [has_address.eq(1), address.eq(axil.awaddr)]
        with m.If(axil.wready):
            m.d.sync += [has_data.eq(1), data.eq(axil.wdata), strobe.eq(axil.wstrb)]
        m.d.comb += write.data.eq(data)
        with m.If(has_address & has_data & noise[3] & ~axil.bvalid):
            m.d.sync += [has_address.eq(0), has_data.eq(0), axil.bvalid.eq(1), axil.bresp.eq(0)]
            with m.If(address == Register.WINDOW_ADDRESS):
                m.d.sync += place.eq(data)
            with m.Elif(address == Register.WINDOW_DATA):
                m.d.comb += [write.en.eq(strobe & there.replicate(4)), moves.eq(there)]
                m.d.sync += axil.bresp.eq(Mux(there, 0, 2))
            with m.Else():
                m.d.sync += axil.bresp.eq(2)
        with m.If(axil.bvalid & axil.bready):
            m.d.sync += axil.bvalid.eq(0)
        with m.If(axil.arready):
            m.d.sync += [axil.rvalid.eq(1), axil.rresp.eq(0)]
            with m.Switch(axil.araddr):
                for register, value in (
                        (Register.ID, Const(regs.IDENTITY)), (Register.VERSION, Const(regs.ISA_VERSION)),
                        (Register.WINDOW_ADDRESS, place), (ACCESSES, accesses)):
                    with m.Case(register):
                        m.d.sync += axil.rdata.eq(value)
                with m.Case(Register.WINDOW_DATA):
                    m.d.comb += moves.eq(there)
                    m.d.sync += [axil.rdata.eq(read.data), axil.rresp.eq(Mux(there, 0, 2))]
                with m.Default():
                    m.d.sync += axil.rresp.eq(2)
        with m.If(axil.rvalid & axil.rready):
            m.d.sync += axil.rvalid.eq(0)
        with m.If(moves):
            m.d.sync += [place.eq(place + 1), accesses.eq(accesses + 1)]
        return m


class WindowTop(wiring.Component):
    """The bridge before a window."""

    def __init__(self, bridge: BridgeParameters) -> None:
        self.bridge = bridge
        super().__init__({"rx": In(1), "tx": Out(1, init=1), "irq": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.bridge = bridge = Bridge(self.bridge)
        m.submodules.window = window = Window()
        connect(m, bridge.axil, window.axil)
        m.d.comb += [bridge.rx.eq(self.rx), self.tx.eq(bridge.tx)]
        return m


@cache
def _verilog(bridge: BridgeParameters) -> Mapping[str, str]:
    return {"window_top.v": emit.verilog(WindowTop(bridge), "window_top")}


def window_array(bridge: BridgeParameters, power_up: PowerUp | None = None) -> CosimArray:
    """The bridge before a window; ``power_up`` as of the array."""
    return CosimArray(preset("ndp-tiny"), 1, 16, verilog=_verilog(bridge), top="window_top", links=[], bridge=bridge,
                      power_up=power_up)


@dataclass
class Noise:
    """What happens to bytes on a line, each by a probability."""

    seed: int = 0
    lose: float = 0.0
    flip: float = 0.0
    insert: float = 0.0
    double: float = 0.0
    rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    def __call__(self, line: bytes) -> bytes:
        """The bytes that come of these."""
        if not line:
            return line
        wrong = self.rng.random((len(line), 4)) < (self.lose, self.flip, self.insert, self.double)
        if not wrong.any():
            return line
        out = bytearray()
        for byte, (lose, flip, insert, double) in zip(line, wrong, strict=True):
            if insert:
                out.append(self.rng.integers(256))
            if flip:
                byte ^= 1 << int(self.rng.integers(8))
            out += b"" if lose else bytes([byte]) * (1 + double)
        return bytes(out)


class NoisyPort(SimulatedPort):
    """A simulated port whose line fails; a second of the host's is short."""

    def __init__(self, array: CosimArray, *, there: Noise | None = None, back: Noise | None = None,
                 cycles_per_second: int = 100_000) -> None:
        super().__init__(array, cycles_per_second=cycles_per_second)
        self.there, self._back = there or Noise(), back or Noise()

    def write(self, line: bytes) -> None:
        super().write(self.there(line))

    def read(self, seconds: float) -> bytes:
        return self._back(super().read(seconds))
