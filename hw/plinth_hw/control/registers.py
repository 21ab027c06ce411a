"""Register file: an AXI4-Lite slave with the map of :mod:`plinth_hw.isa.registers`.

::

    AW, W --+                        +--> registers here (FF)
            +--> one access at a time+--> update counters, performance counters, engine inspection
    AR -----+                        +--> route table
    B, R <-- response register <-----+

One access at a time, reads and writes in turn when both wait. A write takes its address and data together.
An access takes 3 cycles from the handshake to the response, one to UPDATE counters or engine status up to
about 20. Addresses that hold no register, and writes that do not strobe a whole word, answer SLVERR and do
nothing; writes to read-only registers do nothing.
"""

from fractions import Fraction

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.control.dispatch import engine_order, select
from plinth_hw.control.errors import ErrorInfo
from plinth_hw.control.sequencer import EngineStatus, Sequencer
from plinth_hw.isa import registers as regs
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.registers import EngineRegister, Register
from plinth_hw.isa.tasks import ErrorCode

ADDRESS_BITS = 16
#: AXI4-Lite response: the access could not be done.
SLVERR = 2
#: Performance counters of an engine, in the order of their registers from ``EngineRegister.BUSY`` on.
ENGINE_COUNTERS = 8
#: Global performance counters, after those of the engines; those of the links follow.
GLOBAL_COUNTERS = (Register.WORDS_INJECTED, Register.WORDS_TRANSIT, Register.WORDS_READ,
                   Register.WORDS_WRITTEN)


class AXI4LiteSignature(wiring.Signature):
    """AXI4-Lite with 32-bit data, seen from the master, with the specification's names."""

    def __init__(self, address_bits: int = ADDRESS_BITS) -> None:
        super().__init__({
            "awaddr": Out(address_bits), "awprot": Out(3), "awvalid": Out(1), "awready": In(1),
            "wdata": Out(32), "wstrb": Out(4), "wvalid": Out(1), "wready": In(1),
            "bresp": In(2), "bvalid": In(1), "bready": Out(1),
            "araddr": Out(address_bits), "arprot": Out(3), "arvalid": Out(1), "arready": In(1),
            "rdata": In(32), "rresp": In(2), "rvalid": In(1), "rready": Out(1),
        })


def counter_count(parameters: DieParameters) -> int:
    """Performance counters of a die."""
    return ENGINE_COUNTERS * len(parameters.engines) + len(GLOBAL_COUNTERS) + parameters.ports


def rate_word(rate: Fraction) -> int:
    """Value of LINK_RATE.

    Raises
    ------
    ValueError
        If numerator or denominator does not fit in 8 bits.
    """
    if rate.numerator > 255 or rate.denominator > 255:
        raise ValueError(f"link_rate must be a fraction of numbers up to 255, not {rate}")
    return rate.numerator | rate.denominator << 8


class Registers(wiring.Component):
    """The host's view of a die.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    axil : In(AXI4LiteSignature)
        The host.
    start, clear_error, clear_counters : Out(1)
        Pulses of CONTROL. ``start`` only while neither ``running`` nor ``error``, ``clear_error`` only while
        not ``running``.
    running, done, error : In(1)
        STATUS.
    code, task, info : In
        The error registers.
    task_base, record_base, watchdog, die, memory_words, link_rate, bases : Out
        Registers.
    record_count, record_write, record_data : In, Out, Out
        RECORD_COUNT; written only while not ``running``.
    cycle : In(64)
        CYCLE.
    status_0 ... : In(EngineStatus)
        Engines in the order of :func:`engine_order`.
    route_write : Out(struct of valid, die, port)
        A pulse for each write to the route table.
    host_... : to :class:`UpdateCounters`
    read_... : to :class:`PerformanceCounters`
    inspect_... : to :class:`Sequencer`
    """

    def __init__(self, parameters: DieParameters) -> None:
        self.parameters = parameters
        self.engines = engine_order(parameters)
        self.port_bits = max(1, parameters.ports.bit_length())
        bits = parameters.address_bits
        super().__init__({
            "axil": In(AXI4LiteSignature()),
            "start": Out(1),
            "clear_error": Out(1),
            "clear_counters": Out(1),
            "running": In(1),
            "done": In(1),
            "error": In(1),
            "code": In(ErrorCode),
            "task": In(32),
            "info": In(ErrorInfo),
            "task_base": Out(bits),
            "record_base": Out(bits),
            "watchdog": Out(32),
            "die": Out(parameters.die_bits),
            "memory_words": Out(32, init=0xFFFFFFFF),
            "link_rate": Out(16, init=rate_word(parameters.link_rate)),
            "bases": Out(data.ArrayLayout(unsigned(bits), regs.BASE_COUNT)),
            "record_count": In(32),
            "record_write": Out(1),
            "record_data": Out(32),
            "cycle": In(64),
            **{f"status_{e}": In(EngineStatus) for e in range(len(self.engines))},
            "route_write": Out(data.StructLayout({
                "valid": 1, "die": parameters.die_bits, "port": self.port_bits})),
            "host_valid": Out(1),
            "host_ready": In(1),
            "host_index": Out(range(parameters.counters)),
            "host_is_base": Out(1),
            "host_write": Out(1),
            "host_write_data": Out(32),
            "host_read_data": In(32),
            "read_valid": Out(1),
            "read_ready": In(1),
            "read_index": Out(range(max(2, counter_count(parameters)))),
            "read_data": In(64),
            "inspect_valid": Out(1),
            "inspect_ready": In(1),
            "inspect_engine": Out(range(max(2, len(self.engines)))),
            "inspect_kind": Out(2),
            "inspect_data": In(32),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        address = Signal(ADDRESS_BITS)
        write = Signal()
        written = Signal(32)
        answer = Signal(32)
        failed = Signal()
        high = Signal(32)  # high word of the counter whose low word was read last

        with m.FSM():
            with m.State("IDLE"):
                self._accept(m, address, write, written, failed)
            with m.State("DECODE"):
                m.next = "RESPOND"
                m.d.sync += failed.eq(1)
                self._single(m, address, write, written, answer, failed, high)
                self._arrays(m, address, write, written, answer, failed, high)
            with m.State("COUNTER"):
                m.d.comb += self.host_valid.eq(1)
                with m.If(self.host_ready):
                    m.d.sync += answer.eq(self.host_read_data)
                    m.next = "RESPOND"
            with m.State("PERFORMANCE"):
                m.d.comb += self.read_valid.eq(1)
                with m.If(self.read_ready):
                    m.d.sync += Cat(answer, high).eq(self.read_data)
                    m.next = "RESPOND"
            with m.State("INSPECT"):
                m.d.comb += self.inspect_valid.eq(1)
                with m.If(self.inspect_ready):
                    m.d.sync += answer.eq(self.inspect_data)
                    m.next = "RESPOND"
            with m.State("ROUTE"):  # the shadow of the route table is being read
                m.d.sync += answer.eq(self._route_read.data)
                m.next = "RESPOND"
            with m.State("RESPOND"):
                axil = self.axil
                m.d.comb += [
                    axil.bvalid.eq(write),
                    axil.rvalid.eq(~write),
                    axil.bresp.eq(Mux(failed, SLVERR, 0)),
                    axil.rresp.eq(Mux(failed, SLVERR, 0)),
                    axil.rdata.eq(Mux(failed, 0, answer)),
                ]
                with m.If(Mux(write, axil.bready, axil.rready)):
                    m.next = "IDLE"
        return m
