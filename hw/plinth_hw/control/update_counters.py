"""Update counters and their epoch bases: what tasks wait for.

::

    local advance --+                  +--> + 1 --> write
    remote advance -+--> one access -->| counter, base (memories)
    host access ----+    a cycle       +--> counter - base --> slack  (poll)
    poll -----------+

Priority in that order. An advance takes two cycles, in the second of which nothing else is accepted; a poll
one cycle, with ``slack`` valid two cycles after it was granted. After reset all counters and bases are
cleared, which takes as many cycles as there are counters; until then nothing is accepted.
Source: MPT section VI.A (update counters).
"""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.lib.ram import LUT_RAM


class UpdateCounters(wiring.Component):
    """``counters`` counters of 32 bits, each with a base.

    Parameters
    ----------
    counters : int
        How many; a power of two, at least 2.

    Members
    -------
    local, remote : In(stream of counter number)
        Advance that counter by one, modulo 2**32.
    poll_valid, poll_index, poll_ready : In(1), In, Out(1)
        Read a counter and its base; granted in the cycle in which both are high.
    slack : Out(32)
        ``counter - base`` modulo 2**32, two cycles after the grant.
    poll_base : Out(32)
        The base alone, one cycle after the grant.
    host_valid, host_ready : In(1), Out(1)
        One access of the host, held until ready.
    host_index, host_is_base, host_write, host_write_data : In
        What the host accesses, stable while ``host_valid``.
    host_read_data : Out(32)
        Valid with ``host_ready``.

    Raises
    ------
    ValueError
        If the number of counters is not a power of two of at least 2.
    """

    def __init__(self, counters: int) -> None:
        if counters < 2 or counters & (counters - 1):
            raise ValueError(f"Update counters must be a power of two of at least 2, not {counters!r}")
        self.counters = counters
        index = range(counters)
        super().__init__({
            "local": In(stream.Signature(index)),
            "remote": In(stream.Signature(index)),
            "poll_valid": In(1),
            "poll_index": In(index),
            "poll_ready": Out(1),
            "poll_base": Out(32),
            "slack": Out(32),
            "host_valid": In(1),
            "host_ready": Out(1),
            "host_index": In(index),
            "host_is_base": In(1),
            "host_write": In(1),
            "host_write_data": In(32),
            "host_read_data": Out(32),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.values = values = memory.Memory(
            shape=32, depth=self.counters, init=[], attrs=LUT_RAM)
        m.submodules.bases = bases = memory.Memory(
            shape=32, depth=self.counters, init=[], attrs=LUT_RAM)
        # Read in the cycle of the address, which comes from a register.
        value_read, value_write = values.read_port(domain="comb"), values.write_port()
        base_read, base_write = bases.read_port(domain="comb"), bases.write_port()

        index = Signal(range(self.counters))  # what was accepted; while clearing, what is cleared
        write_data = Signal(32)
        m.d.comb += [
            value_read.addr.eq(index), base_read.addr.eq(index),
            value_write.addr.eq(index), base_write.addr.eq(index),
            value_write.data.eq(write_data), base_write.data.eq(write_data),
            self.host_read_data.eq(Mux(self.host_is_base, base_read.data, value_read.data)),
            self.poll_base.eq(base_read.data),
        ]
        m.d.sync += self.slack.eq(value_read.data - base_read.data)

        with m.FSM():
            with m.State("CLEAR"):
                m.d.comb += [value_write.en.eq(1), base_write.en.eq(1)]
                m.d.sync += index.eq(index + 1)
                with m.If(index.all()):
                    m.next = "ACCEPT"
            with m.State("ACCEPT"):
                with m.If(self.local.valid):
                    m.d.comb += self.local.ready.eq(1)
                    m.d.sync += index.eq(self.local.payload)
                    m.next = "ADVANCE"
                with m.Elif(self.remote.valid):
                    m.d.comb += self.remote.ready.eq(1)
                    m.d.sync += index.eq(self.remote.payload)
                    m.next = "ADVANCE"
                with m.Elif(self.host_valid):
                    m.d.sync += index.eq(self.host_index)
                    m.next = "HOST"
                with m.Else():
                    m.d.comb += self.poll_ready.eq(1)
                    m.d.sync += index.eq(self.poll_index)
            with m.State("ADVANCE"):
                m.d.comb += [value_write.en.eq(1), write_data.eq(value_read.data + 1)]
                m.next = "ACCEPT"
            with m.State("HOST"):
                m.d.comb += [
                    self.host_ready.eq(1),
                    write_data.eq(self.host_write_data),
                    value_write.en.eq(self.host_write & ~self.host_is_base),
                    base_write.en.eq(self.host_write & self.host_is_base),
                ]
                m.next = "ACCEPT"
        return m
