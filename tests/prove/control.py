"""Proofs of :mod:`plinth_hw.control`."""

from types import ModuleType

from amaranth.hdl import Cat, Mux, Signal
from tests.prove.axi_lite import slave
from tests.prove.harness import Harness, one_hot
from tests.prove.proof import Proof, Twin

from plinth_hw.isa.parameters import preset


def update_counters(harness: Harness, code: ModuleType) -> None:
    """Of four; one of them, whichever, is followed."""
    m, counters = harness.m, code.UpdateCounters(4)
    state = harness.block(counters, peeked=("values", "bases"))
    which = harness.fixed(range(4), "which")
    host = Cat(counters.host_index, counters.host_is_base, counters.host_write, counters.host_write_data)
    harness.assume(harness.stands(counters.host_valid, counters.host_ready, host))
    for stream in (counters.local, counters.remote):
        harness.assume(harness.stable(stream))

    # What it should hold: advances counted, and what the host writes.
    value, base = Signal(32), Signal(32)
    advances = [stream.valid & stream.ready for stream in (counters.local, counters.remote)]
    mine = Cat(advance & (stream.payload == which)
               for advance, stream in zip(advances, (counters.local, counters.remote), strict=True))
    accessed = counters.host_valid & counters.host_ready
    writes = accessed & counters.host_write & (counters.host_index == which)
    with m.If(mine.any()):
        m.d.sync += value.eq(value + 1)
    with m.If(writes & counters.host_is_base):
        m.d.sync += base.eq(counters.host_write_data)
    with m.If(writes & ~counters.host_is_base):
        m.d.sync += value.eq(counters.host_write_data)
    # An advance reaches the memory a cycle after it was taken.
    under_way = harness.past(mine.any())
    m.d.comb += [state["values_peek"][0].addr.eq(which), state["bases_peek"][0].addr.eq(which)]
    within, index = state["in_state"], state["index"]
    # Until it is cleared, after a reset, memory holds anything.
    uncleared = within("CLEAR") & (index <= which)
    harness.invariant(uncleared | ((state["values_peek"][0].data + under_way)[:32] == value))
    harness.invariant(uncleared | (state["bases_peek"][0].data == base))
    harness.invariant(~within("CLEAR") | ((value == 0) & (base == 0)))
    harness.invariant(within("ADVANCE") == harness.past(Cat(advances).any()))
    harness.invariant(~within("ADVANCE") | (index == harness.past(
        Mux(advances[0], counters.local.payload, counters.remote.payload))))
    harness.invariant(~within("HOST") | (counters.host_valid & (index == counters.host_index)))

    poll = counters.poll_valid & counters.poll_ready
    followed = harness.past(poll & (counters.poll_index == which))
    harness.claim("a poll tells counter minus base, two cycles later",
                  ~harness.past(followed) | (counters.slack == harness.past(value - base)[:32]))
    harness.claim("a poll tells the base, one cycle later", ~followed | (counters.poll_base == base))
    harness.claim("the host reads what is held", ~accessed | (counters.host_index != which) | (
        counters.host_read_data == Mux(counters.host_is_base, base, value)))
    accepted = Cat(*advances, accessed, poll)
    harness.claim("one access at a time", ~accepted.any() | one_hot(accepted))


def registers(harness: Harness, code: ModuleType) -> None:
    """The register file of a small die, which answers as AXI4-Lite asks for."""
    block = code.Registers(preset("ndp-tiny"))
    state = harness.block(block)
    within, pending = state["in_state"], slave(harness, block.axil)
    at_rest = within("CLEAR", "IDLE")
    harness.invariant(at_rest | within("DECODE", "ANSWER", "COUNTER", "PERFORMANCE", "INSPECT", "ROUTE", "RESPOND"))
    harness.invariant((pending.reads + pending.writes) == ~at_rest)
    harness.invariant(at_rest | (state["write"] == pending.writes))
    harness.claim("an access that is no access to a whole word changes nothing", ~Cat(
        block.start, block.stop, block.clear_error, block.clear_counters, block.record_write,
        block.route_write.valid & ~block.route_write.clears).any()
        | ((state["address"][:2] == 0) & state["write"]))
    harness.claim("a graph is started only while none runs and nothing failed",
                  ~block.start | ~(block.running | block.error | block.stopped))
    harness.claim("an error is cleared only while nothing runs", ~block.clear_error | ~block.running)
    harness.invariant(at_rest | within("RESPOND") | (state["address"][:2] == 0))

    # Cycles of an access in which no other part is waited for.
    port, spent = block.axil, Signal(3)
    awaited = (within("COUNTER") & ~block.host_ready) | (within("PERFORMANCE") & ~block.read_ready) | (
        within("INSPECT") & ~block.inspect_ready)
    harness.m.d.sync += spent.eq(Mux(at_rest | within("RESPOND"), 0, spent + ~awaited))
    harness.invariant(~within("DECODE") | (spent == 0))
    harness.invariant(~within("COUNTER", "PERFORMANCE", "INSPECT", "ROUTE") | (spent == 1))
    harness.invariant(~within("ANSWER") | (spent == 1) | (spent == 2))
    harness.claim("an access is taken at once where none is under way", ~within("IDLE") | ~(
        port.arvalid | (port.awvalid & port.wvalid)) | (port.arvalid & port.arready)
        | (port.awvalid & port.awready & port.wvalid & port.wready))
    harness.claim("an access is answered after at most four cycles, and what other parts take", at_rest
                  | (spent < 4) & (~within("RESPOND") | port.bvalid | port.rvalid))


PROOFS = (
    Proof("update-counters", "plinth_hw.control.update_counters", update_counters, 3, (
        Twin("a poll tells counter minus base, two cycles later", "self.slack.eq(value_read.data - base_read.data)",
             "self.slack.eq(base_read.data - value_read.data)"),
        Twin("a poll tells counter minus base, two cycles later", "write_data.eq(value_read.data + 1)",
             "write_data.eq(value_read.data + 2)"),
        Twin("a poll tells the base, one cycle later", "base_write.en.eq(self.host_write & self.host_is_base)",
             "base_write.en.eq(self.host_write & ~self.host_is_base)"),
        Twin("the host reads what is held", "Mux(self.host_is_base, base_read.data, value_read.data)",
             "Mux(self.host_is_base, value_read.data, base_read.data)"),
        Twin("one access at a time", "with m.Elif(self.remote.valid):", "with m.If(self.remote.valid):"),
    )),
    Proof("axi4-lite-slave", "plinth_hw.control.registers", registers, 2, (
        Twin("b: an answer stands until it is taken", "with m.If(Mux(write, axil.bready, axil.rready)):",
             "with m.If(axil.rready):"),
        Twin("r: an answer stands until it is taken", "with m.If(Mux(write, axil.bready, axil.rready)):",
             "with m.If(axil.bready):"),
        Twin("b: an answer follows an access", "axil.bvalid.eq(write)", "axil.bvalid.eq(1)"),
        Twin("r: an answer follows an access", "axil.rvalid.eq(~write)", "axil.rvalid.eq(1)"),
        Twin("b: one access at a time", "        m.d.comb += answers.eq(",
             "        m.d.comb += axil.awready.eq(axil.awvalid)\n        m.d.comb += answers.eq("),
        Twin("r: one access at a time", "        m.d.comb += answers.eq(",
             "        m.d.comb += axil.arready.eq(axil.arvalid)\n        m.d.comb += answers.eq("),
        Twin("a write is answered once address and data have come", "axil.awvalid & axil.wvalid & ~",
             "axil.awvalid & ~"),
        Twin("an access is taken at once where none is under way", "take_read.eq(axil.arvalid & ~take_write)",
             "take_read.eq(axil.arvalid & ~take_write & axil.rready)"),
        Twin("an access is answered after at most four cycles, and what other parts take",
             'with m.State("ANSWER"):\n                m.next = "RESPOND"',
             'with m.State("ANSWER"):\n                m.next = "ANSWER"'),
        Twin("an access that is no access to a whole word changes nothing",
             "axil.awaddr[:2].any() | ~whole", "~whole"),
        Twin("a graph is started only while none runs and nothing failed", "asked[0] & ~self.running & ~self.error",
             "asked[0] & ~self.running"),
        Twin("an error is cleared only while nothing runs", "asked[1] & ~self.running", "asked[1]"),
    ), shortcuts=(
        # All places but the last one of the memories that are cleared after reset.
        ("address = Signal(ADDRESS_BITS)", "address = Signal(ADDRESS_BITS, init=0x7FC)"),)),
)
