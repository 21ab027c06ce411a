"""Register file: an AXI4-Lite slave with the map of :mod:`plinth_hw.isa.registers`.

::

    AW, W --+                        +--> registers here (FF)
            +--> one access at a time+--> update counters, performance counters, engine inspection
    AR -----+                        +--> route table, memory window
    B, R <-- response register <-- OR <-- register of each, zero but for the one that answers

One access at a time, reads and writes in turn when both wait. A write takes its address and data together.
The response comes in the third cycle after the handshake, for update counters and engine status up to about 20
cycles later, for performance counters when their turn in the sweep comes. The first access after reset waits until
memories are cleared, :func:`clear_cycles`. Addresses that hold no register, and writes that do not strobe a whole
word, answer SLVERR and do nothing; writes to read-only registers do nothing. With a memory window, WINDOW_DATA takes
single words of 16 bits, too, and writes to other registers wait until memory holds what was written to it. Writes to
the route table for a die or port that does not exist do nothing but raise ``bad_route``.
"""


from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.control.dispatch import engine_order
from plinth_hw.control.inspection import InspectKind
from plinth_hw.control.routes import port_bits, rates_layout, route_table, route_write_layout
from plinth_hw.control.task_ring import EngineStatus
from plinth_hw.isa import registers as regs
from plinth_hw.isa.formats import Fixed
from plinth_hw.isa.identity import IDENTITY_REGISTERS, identity
from plinth_hw.isa.limits import field_bits, reset_value
from plinth_hw.isa.operations import ErrorCode
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.registers import EngineRegister, ErrorInfo, LinkRate, Register
from plinth_hw.lib.choice import one_registered
from plinth_hw.lib.ram import LUT_RAM
from plinth_hw.shapes import shape_of

ADDRESS_BITS = 16
#: Fields of each channel that are used here, and pass through register slices.
SLICED_FIELDS = {"aw": ("addr",), "w": ("data", "strb"), "b": ("resp",), "ar": ("addr",), "r": ("data", "resp")}
#: AXI4-Lite response: the access could not be done.
SLVERR = 2
#: Performance counters of an engine, in the order of their registers from ``EngineRegister.BUSY`` on.
ENGINE_COUNTERS = 8
#: Global performance counters, after those of the engines; those of the links follow.
GLOBAL_COUNTERS = (Register.WORDS_READ, Register.WORDS_WRITTEN)
#: Before them those of dies with a network.
NETWORK_COUNTERS = (Register.WORDS_INJECTED, Register.WORDS_TRANSIT)
#: Further ones of fixed-point dies.
FIXED_COUNTERS = (Register.SUMS_AT_ENDS, Register.RESULTS_BEYOND)


_PAGE_LOG2 = exact_log2(regs.PAGE_BYTES)
_SPAN_LOG2 = exact_log2(regs.ENGINE_SPAN)
_ENGINES_LOG2 = exact_log2(regs.ENGINE_SPAN * regs.ENGINE_COUNT)
#: The identity registers lie side by side.
_IDENTITY_LOG2 = exact_log2(4 * len(IDENTITY_REGISTERS))


def _within(address: Value, start: int, count_log2: int) -> Value:
    """Whether an address is one of ``2 ** count_log2`` registers from ``start`` on, which is a multiple of their
    size."""
    return address[2 + count_log2:] == start >> (2 + count_log2)


def _copy_of(address: Value) -> Value:
    """Place of a register that is read and written in the memory of copies, and of a base register."""
    return address[2:6]


class _Answers:
    """Words that accesses answer with, of which at most one is given in a cycle."""

    def __init__(self) -> None:
        #: A word is given, or will be.
        self.known = Signal(name="known")
        self._words: dict[int, tuple[Signal, Value]] = {}

    def give(self, m: Module, word: Value) -> None:
        """Answer with ``word``, under the conditions in which this is called."""
        selected, _ = self._words.setdefault(id(word), (Signal(name="selected"), word))
        m.d.comb += [selected.eq(1), self.known.eq(1)]

    def word(self, m: Module) -> Value:
        """The one that was given a cycle ago, or else 0."""
        return one_registered(m, "held", *zip(*self._words.values(), strict=True))


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


def global_counters(parameters: DieParameters) -> tuple[Register, ...]:
    """Performance counters of a die that are of no engine and no link."""
    return (*(NETWORK_COUNTERS if parameters.ports else ()), *GLOBAL_COUNTERS,
            *(FIXED_COUNTERS if isinstance(parameters.multiply_format, Fixed) else ()))


def link_counters(parameters: DieParameters) -> tuple[int, ...]:
    """Performance counters that each link has: the first register of each array of them."""
    if not parameters.ports:
        return ()
    return regs.LINK_WORDS, *((regs.LINK_BAD_FRAMES, regs.LINK_REPLAYS) if parameters.link_phits else ())


def counter_count(parameters: DieParameters) -> int:
    """Performance counters of a die."""
    return (ENGINE_COUNTERS * len(parameters.engines) + len(global_counters(parameters))
            + parameters.ports * len(link_counters(parameters)))


def clear_cycles(parameters: DieParameters) -> int:
    """Cycles after reset in which memories are cleared: registers that lie in one, and of dies with a network routes to
    all destinations."""
    return max(1 << len(_copy_of(Const(0, ADDRESS_BITS))), 1 << parameters.die_bits if parameters.ports else 0)


class Registers(wiring.Component):
    """The host's view of a die.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    axil : In(AXI4LiteSignature)
        The host.
    start, stop, clear_error, clear_counters : Out(1)
        Pulses of CONTROL. ``start`` only while none of ``running``, ``error`` and ``stopped``, ``clear_error`` only
        while not ``running``. They, and ``record_write``, come in the cycle after the address was looked at.
    running, done, error, stopped : In(1)
        STATUS.
    code, task, info : In
        The error registers.
    task_base, record_base, watchdog, die, dies, memory_words : Out
        Registers.
    base_number : In, base_address : Out
        A base register, and what it holds, in the same cycle.
    link_rate : Out
        LINK_RATE; of dies with a network only, as are ``rates``, ``route_write`` and ``bad_route``.
    rates : Out, :func:`~plinth_hw.control.routes.rates_layout`
        LINK_RATE for each port, or what LINK_RATES says.
    links_up : In(ports)
        With a link layer only: LINKS_UP.
    record_count, record_write, record_data : In, Out, Out
        RECORD_COUNT; written only while not ``running``.
    cycle : In(64)
        CYCLE.
    status_0 ... : In(EngineStatus)
        Engines in the order of :func:`engine_order`.
    first_busy_0 ..., last_busy_0 ... : In(32)
        From :class:`~plinth_hw.control.counters.BusyPeriod` of each.
    route_write : Out, :func:`~plinth_hw.control.routes.route_write_layout`
        A pulse for each write to the route table; ``clears`` from reset until all is cleared.
    bad_route : Out(struct of valid, die)
        A pulse for each write to it that is refused, for a die that is none of ``dies`` or a port that does not exist.
    host_... : to :class:`UpdateCounters`
    read_... : to :class:`PerformanceCounters`
    inspect_... : to :class:`TaskSequencer`
    window_... : to :class:`~plinth_hw.control.window.MemoryWindow`
        With a memory window only.
    verilog_digest : In(32)
        VERILOG_DIGEST.
    """

    def __init__(self, parameters: DieParameters) -> None:
        self.parameters = parameters
        self.engines = engine_order(parameters)
        bits = parameters.address_bits
        rate = {"numerator": parameters.link_rate.numerator, "denominator": parameters.link_rate.denominator}
        super().__init__({
            "axil": In(AXI4LiteSignature()),
            "start": Out(1),
            "stop": Out(1),
            "clear_error": Out(1),
            "clear_counters": Out(1),
            "running": In(1),
            "done": In(1),
            "error": In(1),
            "stopped": In(1),
            "code": In(shape_of(ErrorCode)),
            "task": In(32),
            "info": In(shape_of(ErrorInfo)),
            "task_base": Out(bits),
            "record_base": Out(bits),
            "watchdog": Out(32, init=reset_value(Register.WATCHDOG, parameters)),
            "die": Out(parameters.die_bits),
            "dies": Out(parameters.die_bits + 1, init=reset_value(Register.DIES, parameters)),
            "memory_words": Out(32, init=reset_value(Register.MEMORY_WORDS, parameters)),
            **({"link_rate": Out(LinkRate.BITS, init=reset_value(Register.LINK_RATE, parameters)),
                "rates": Out(rates_layout(parameters),
                             init=[rate] * parameters.ports if parameters.has_port_rates else None),
                "route_write": Out(route_write_layout(parameters)),
                "bad_route": Out(data.StructLayout({"valid": 1, "die": field_bits(ErrorInfo, "die")}))}
               if parameters.ports else {}),
            **({"links_up": In(parameters.ports)} if parameters.link_phits else {}),
            "base_number": In(range(regs.BASE_COUNT)), "base_address": Out(bits),
            "record_count": In(32),
            "record_write": Out(1),
            "record_data": Out(32),
            "cycle": In(64),
            **{f"status_{e}": In(EngineStatus) for e in range(len(self.engines))},
            **{f"first_busy_{e}": In(32) for e in range(len(self.engines))},
            **{f"last_busy_{e}": In(32) for e in range(len(self.engines))},
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
            "verilog_digest": In(32),
            **({"window_set": Out(1), "window_address": In(bits), "window_reads": Out(1), "window_valid": Out(1),
                "window_write": Out(1), "window_data": Out(32), "window_strobe": Out(parameters.words_of(1)),
                "window_ready": In(1), "window_failed": In(1), "window_found": In(32), "window_idle": In(1)}
               if parameters.has_window else {}),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        axil = self.axil
        address = Signal(ADDRESS_BITS)
        write = Signal()
        written = Signal(32)
        answer, answers = Signal(32), Signal(32)  # 0 until something answers; 0 but for a cycle in which it does
        failed = Signal()
        decode = Signal()  # the address is looked at
        high = Signal(32)  # high word of the counter whose low word was read last
        m.d.comb += [
            self.host_index.eq(address[2:]),
            self.host_is_base.eq((address & (regs.COUNTERS ^ regs.COUNTER_BASES)).any()),
            self.host_write.eq(write), self.host_write_data.eq(written),
            self.record_data.eq(written),
            axil.bresp.eq(Mux(failed, SLVERR, 0)), axil.rresp.eq(Mux(failed, SLVERR, 0)), axil.rdata.eq(answer),
        ]
        if self.parameters.has_window:
            m.d.comb += [self.window_write.eq(write), self.window_data.eq(written)]
            m.d.sync += self.window_set.eq(0)
        cleared = Signal()  # memories take their values after reset
        if self.parameters.ports:
            writes_route, route = self._routes(m, address, decode, write, written, cleared)
            if not self.parameters.has_port_rates:
                m.d.comb += self.rates.eq(self.link_rate.replicate(self.parameters.ports))
        kept, copy = self._copies(m, address, write, written, cleared)
        is_base, base = self._bases(m, address, write, written, cleared)
        decoded = _Answers()
        asked, sets = Signal(4), Signal()  # bits of CONTROL; RECORD_COUNT is written
        m.d.sync += [asked.eq(0), sets.eq(0)]
        m.d.comb += [
            self.start.eq(asked[0] & ~self.running & ~self.error & ~self.stopped),
            self.clear_error.eq(asked[1] & ~self.running),
            self.clear_counters.eq(asked[2]), self.stop.eq(asked[3]), self.record_write.eq(sets & ~self.running),
        ]
        m.d.sync += answer.eq(answer | answers)
        answering: list[Value] = []  # what else answers, each 0 but for its cycle
        exists, position = Signal(), Signal.like(self.inspect_engine)  # the engine whose block is addressed
        with m.Switch(address[_SPAN_LOG2:_ENGINES_LOG2]):
            for index, engine in enumerate(self.engines):
                with m.Case(engine.value):
                    m.d.comb += [exists.eq(1), position.eq(index)]

        with m.FSM():
            with m.State("CLEAR"):
                place = address[2:2 + exact_log2(clear_cycles(self.parameters))]
                m.d.comb += cleared.eq(1)
                m.d.sync += place.eq(place + 1)
                with m.If(place.all()):
                    m.next = "IDLE"
            with m.State("IDLE"):
                self._accept(m, address, write, written, answer, failed)
            with m.State("DECODE"):
                m.d.comb += decode.eq(1)
                m.next = "ANSWER"
                with m.Switch(address[_PAGE_LOG2:]):
                    with m.Case(0):
                        self._single(m, address, write, written, decoded, high, kept, asked, sets)
                        with m.If(_within(address[:_PAGE_LOG2], regs.BASES, exact_log2(regs.BASE_COUNT))):
                            m.d.comb += is_base.eq(1)
                            decoded.give(m, base)
                    with m.Case(*range(regs.ENGINES >> _PAGE_LOG2,
                                       regs.ENGINES + regs.ENGINE_SPAN * regs.ENGINE_COUNT >> _PAGE_LOG2)):
                        self._engines(m, address, exists, position, decoded, high)
                    for which, place in enumerate(link_counters(self.parameters)):
                        with m.Case(place >> _PAGE_LOG2):
                            self._link_counters(m, address, which, decoded, high)
                    if self.parameters.has_port_rates:
                        with m.Case(regs.LINK_RATES >> _PAGE_LOG2):
                            self._link_rates(m, address, write, written, decoded)
                with m.If(kept):
                    decoded.give(m, copy)
                if self.parameters.ports:
                    with m.If(_within(address, regs.ROUTES, self.parameters.die_bits)):
                        m.d.comb += decoded.known.eq(1)
                        m.next = "ROUTE"
                with m.If(_within(address, regs.COUNTERS, len(self.host_index))
                          | _within(address, regs.COUNTER_BASES, len(self.host_index))):
                    m.d.comb += decoded.known.eq(1)
                    m.next = "COUNTER"
                m.d.sync += failed.eq(~decoded.known)
            with m.State("ANSWER"):
                m.next = "RESPOND"
            with m.State("COUNTER"):
                m.d.comb += self.host_valid.eq(1)
                with m.If(self.host_ready):
                    decoded.give(m, self.host_read_data)
                    m.next = "ANSWER"
            with m.State("PERFORMANCE"):
                m.d.comb += self.read_valid.eq(1)
                with m.If(self.read_ready):
                    decoded.give(m, self.read_data[:32])
                    m.d.sync += high.eq(self.read_data[32:])
                    m.next = "ANSWER"
            with m.State("INSPECT"):
                m.d.comb += self.inspect_valid.eq(1)
                with m.If(self.inspect_ready):
                    decoded.give(m, self.inspect_data)
                    m.next = "ANSWER"
            if self.parameters.ports:
                with m.State("ROUTE"):
                    shows = Signal(name="shows_route")
                    answering.append(Mux(shows, route, 0))
                    m.d.comb += shows.eq(1)
                    m.d.comb += writes_route.eq(write & ~self.bad_route.valid)
                    m.next = "RESPOND"
            if self.parameters.has_window:
                answering.append(self.window_found)
                with m.State("WINDOW"):
                    m.d.comb += self.window_valid.eq(1)
                    with m.If(self.window_ready):
                        m.d.sync += failed.eq(self.window_failed)
                        m.next = "RESPOND"
            with m.State("RESPOND"):
                m.d.comb += [axil.bvalid.eq(write), axil.rvalid.eq(~write)]
                with m.If(Mux(write, axil.bready, axil.rready)):
                    m.next = "IDLE"
        m.d.comb += answers.eq(reduce(or_, answering, decoded.word(m)))
        return m

    def _routes(self, m: Module, address: Signal, decode: Signal, write: Signal, written: Signal, cleared: Signal
                ) -> tuple[Signal, Value]:
        """A flag to drive as a route is written, and what the route table holds, a cycle after it was addressed. The
        router's has no port to spare for the host: what was written is kept here as well."""
        m.submodules.routes = routes = route_table(self.parameters, port_bits(self.parameters))
        route_write, route_read = routes.write_port(), routes.read_port()
        route, number = address[2:2 + self.parameters.die_bits], address[2:2 + len(self.bad_route.die)]
        writes = Signal(name="writes_route")
        m.d.sync += self.bad_route.valid.eq(decode & write & _within(address, regs.ROUTES, len(number)) & (
            (number >= self.dies) | (written >= self.parameters.ports)))
        m.d.comb += [
            route_read.en.eq(1), route_read.addr.eq(route),
            self.route_write.valid.eq(writes | cleared), self.route_write.clears.eq(cleared),
            self.route_write.destination.eq(route), self.route_write.port.eq(written),
            self.bad_route.die.eq(number),
            route_write.en.eq(self.route_write.valid), route_write.addr.eq(route),
            route_write.data.eq(Mux(cleared, 0, written)),
        ]
        return writes, route_read.data

    def _accept(self, m: Module, address: Signal, write: Signal, written: Signal, answer: Signal,
                failed: Signal) -> None:
        """Takes an access; one that is not of a whole word goes straight to its response."""
        axil = self.axil
        written_last, take_write, take_read = Signal(), Signal(), Signal()
        may_write, whole = Signal(), Signal()
        m.d.comb += [may_write.eq(1), whole.eq(axil.wstrb.all())]
        if self.parameters.has_window:
            self._accept_window(m, may_write, whole)
        m.d.comb += [
            take_write.eq(axil.awvalid & axil.wvalid & ~(axil.arvalid & written_last) & may_write),
            take_read.eq(axil.arvalid & ~take_write),
            axil.awready.eq(take_write), axil.wready.eq(take_write), axil.arready.eq(take_read),
        ]
        # Whether it is an access is for the next state alone to know.
        m.d.sync += [address.eq(Mux(take_write, axil.awaddr, axil.araddr)), write.eq(take_write),
                     written.eq(axil.wdata), answer.eq(0), failed.eq(1)]
        with m.If(take_write | take_read):
            m.d.sync += written_last.eq(take_write)
            m.next = "DECODE"
        with m.If(Mux(take_write, axil.awaddr[:2].any() | ~whole,
                      take_read & axil.araddr[:2].any())):
            m.next = "RESPOND"

    def _accept_window(self, m: Module, may_write: Signal, whole: Signal) -> None:
        """Writes to WINDOW_DATA may be of single words, and come one after the other; all others wait for them."""
        axil, words = self.axil, self.parameters.words_of(1)
        halves = [axil.wstrb.word_select(word, 4 // words) for word in range(words)]
        of_window = Signal()
        m.d.comb += [of_window.eq(axil.awaddr == Register.WINDOW_DATA), may_write.eq(self.window_idle | of_window)]
        with m.If(of_window):
            m.d.comb += whole.eq(axil.wstrb.any() & Cat(half.all() | ~half.any() for half in halves).all())
        m.d.sync += self.window_strobe.eq(Cat(half.all() for half in halves))

    def _kept(self) -> dict[int, Signal]:
        """Byte addresses of the registers of this component that are read and written."""
        return {
            Register.TASK_BASE: self.task_base, Register.RECORD_BASE: self.record_base,
            Register.WATCHDOG: self.watchdog, Register.DIE: self.die, Register.DIES: self.dies,
            Register.MEMORY_WORDS: self.memory_words,
            **({Register.LINK_RATE: self.link_rate} if self.parameters.ports else {})}

    def _bases(self, m: Module, address: Signal, write: Signal, written: Signal,
               cleared: Signal) -> tuple[Signal, Value]:
        """The base registers, of which one is wanted at a time: a memory with a read port for the host and one for
        pointers.

        Returns a flag to drive while one is addressed, and what that holds."""
        is_base = Signal()
        m.submodules.bases = bases = memory.Memory(shape=len(self.base_address), depth=regs.BASE_COUNT, init=[],
                                                   attrs=LUT_RAM)
        store, back, lookup = bases.write_port(), bases.read_port(domain="comb"), bases.read_port(domain="comb")
        m.d.comb += [
            store.addr.eq(_copy_of(address)), store.data.eq(Mux(cleared, 0, written)),
            store.en.eq(cleared | (is_base & write)), back.addr.eq(_copy_of(address)),
            lookup.addr.eq(self.base_number), self.base_address.eq(lookup.data),
        ]
        return is_base, back.data

    def _copies(self, m: Module, address: Signal, write: Signal, written: Signal,
                cleared: Signal) -> tuple[Signal, Value]:
        """A memory of what :meth:`_kept` registers hold, to read them without a multiplexer of them all.

        Returns ``kept``, to drive while such a register is addressed, and what it holds."""
        kept = Signal()
        m.submodules.copies = copies = memory.Memory(shape=32, depth=1 << len(_copy_of(address)), init=[])
        copy_write, copy_read = copies.write_port(), copies.read_port(domain="comb")
        m.d.comb += [
            copy_read.addr.eq(_copy_of(address)), copy_write.addr.eq(_copy_of(address)),
            copy_write.en.eq(cleared | (kept & write)), copy_write.data.eq(Mux(cleared, 0, written)),
        ]
        with m.Switch(_copy_of(address)):
            for place, register in self._kept().items():
                if register.init or len(register) < 32:
                    with m.Case(Const.cast(_copy_of(Const(place, ADDRESS_BITS))).value):
                        m.d.comb += copy_write.data.eq(
                            Mux(cleared, register.init, self._taken(place, register, written)))
        return kept, copy_read.data

    def _taken(self, place: int, register: Value, written: Value) -> Value:
        """What a register holds when ``written`` is written to it; memory on the chip has no more than there is."""
        most = self.parameters.most_memory_words
        if place == Register.MEMORY_WORDS and not self.parameters.axi_ports:
            return Mux(written > most, most, written)
        return written[:len(register)]

    def _counter(self, m: Module, index: Value, second: Value, answers: _Answers, high: Signal) -> None:
        """Either word of a performance counter."""
        m.d.comb += answers.known.eq(1)
        m.d.sync += self.read_index.eq(index)
        with m.If(second):
            answers.give(m, high)
        with m.Else():
            m.next = "PERFORMANCE"

    def _single(self, m: Module, address: Signal, write: Signal, written: Signal, answers: _Answers,
                high: Signal, kept: Signal, asked: Signal, sets: Signal) -> None:
        """Single registers."""
        with m.Switch(address[2:_PAGE_LOG2]):
            for place, register in self._kept().items():
                with m.Case(place >> 2):
                    m.d.comb += kept.eq(1)
                    with m.If(write):
                        m.d.sync += register.eq(self._taken(place, register, written))
                        if place == Register.LINK_RATE and self.parameters.has_port_rates:
                            m.d.sync += [rate.eq(written) for rate in self.rates]
            for place, value in ((Register.ID, Const(regs.IDENTITY, 32)),
                                 (Register.VERSION, Const(regs.ISA_VERSION, 32)),
                                 (Register.STATUS, Cat(self.running, self.done, self.error, self.stopped)),
                                 (Register.ERROR_CODE, Cat(self.code)), (Register.ERROR_TASK, self.task),
                                 (Register.ERROR_INFO, Cat(self.info)),
                                 (Register.CYCLE + 4, high)):
                with m.Case(place >> 2):
                    answers.give(m, value)
            if self.parameters.link_phits:
                with m.Case(Register.LINKS_UP >> 2):
                    answers.give(m, self.links_up)
            if self.parameters.has_window:
                with m.Case(Register.WINDOW_ADDRESS >> 2):
                    answers.give(m, self.window_address)
                    m.d.sync += self.window_set.eq(write)
                with m.Case(Register.WINDOW_DATA >> 2):
                    m.d.comb += [answers.known.eq(1), self.window_reads.eq(~write)]
                    m.next = "WINDOW"
            with m.Case(*(register >> 2 for register in IDENTITY_REGISTERS)):
                answers.give(m, self._identity(m, address))
            with m.Case(Register.CONTROL >> 2):
                m.d.comb += answers.known.eq(1)
                with m.If(write):
                    m.d.sync += asked.eq(written)
            with m.Case(Register.RECORD_COUNT >> 2):
                answers.give(m, self.record_count)
                m.d.sync += sets.eq(write)
            with m.Case(Register.CYCLE >> 2):
                answers.give(m, self.cycle[:32])
                m.d.sync += high.eq(self.cycle[32:])
            for index, register in enumerate(global_counters(self.parameters)):
                with m.Case(register >> 2, (register >> 2) + 1):
                    self._counter(m, Const(ENGINE_COUNTERS * len(self.engines) + index), address[2], answers, high)

    def _identity(self, m: Module, address: Signal) -> Value:
        """The identity register at ``address``: a constant, but for the digest of the Verilog."""
        value = Signal(32, name="identity")
        with m.Switch(address[2:_IDENTITY_LOG2]):
            for register, known in identity(self.parameters).items():
                with m.Case((register >> 2) % len(IDENTITY_REGISTERS)):
                    m.d.comb += value.eq(self.verilog_digest if register is Register.VERILOG_DIGEST else known)
        return value

    def _engines(self, m: Module, address: Signal, exists: Signal, position: Signal, answers: _Answers,
                 high: Signal) -> None:
        """Status blocks of the engines that exist."""
        register = address[2:_SPAN_LOG2]
        m.d.sync += self.inspect_engine.eq(position)
        with m.If(exists), m.Switch(register):
            for place, name in ((EngineRegister.STATE, "status"), (EngineRegister.FIRST_BUSY, "first_busy"),
                                (EngineRegister.LAST_BUSY, "last_busy")):
                with m.Case(place >> 2):
                    for index in range(len(self.engines)):
                        with m.If(position == index):
                            answers.give(m, Value.cast(getattr(self, f"{name}_{index}")))
            for place, kind in ((EngineRegister.TASK, InspectKind.TASK),
                                (EngineRegister.WAIT_COUNTER, InspectKind.COUNTER),
                                (EngineRegister.WAIT_VALUE, InspectKind.WAIT)):
                with m.Case(place >> 2):
                    m.d.comb += answers.known.eq(1)
                    m.d.sync += self.inspect_kind.eq(kind)
                    m.next = "INSPECT"
            first = EngineRegister.BUSY >> 2
            with m.Case(*range(first, first + 2 * ENGINE_COUNTERS)):
                counter = Signal(range(ENGINE_COUNTERS))
                m.d.comb += counter.eq((register >> 1) - (first >> 1))
                self._counter(m, Cat(counter, position), register[0], answers, high)

    def _link_counters(self, m: Module, address: Signal, which: int, answers: _Answers, high: Signal) -> None:
        """One of the counters of each link."""
        ports = self.parameters.ports
        first = ENGINE_COUNTERS * len(self.engines) + len(global_counters(self.parameters)) + which * ports
        for port in range(ports):
            with m.If(address[3:_PAGE_LOG2] == port):
                self._counter(m, Const(first + port), address[2], answers, high)

    def _link_rates(self, m: Module, address: Signal, write: Signal, written: Signal, answers: _Answers) -> None:
        """The rate of each link."""
        for port in range(self.parameters.ports):
            with m.If(address[2:_PAGE_LOG2] == port):
                answers.give(m, self.rates[port].as_value())
                with m.If(write):
                    m.d.sync += self.rates[port].eq(written)
