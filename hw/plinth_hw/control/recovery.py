"""Stops a die without a reset from outside: throws away all that is under way, and lets it begin anew.

::

    stop --> DRAIN --drained--> SETTLE --64 cycles--> LEAVE --> STOPPED --clear--> RUN
             engines, scheduler and network held in reset       nothing of
             accesses to memory end    | crossbar too           other dies comes in

Parts of a die may be in reset a cycle later than they are told to be: those which already are ask nothing of the
others, and in LEAVE all leave it.
The memory is owed what it was asked for (AXI4 knows no way back): data of reads are thrown away, what is missing of
writes is written with no strobe set. What other dies have on the wires is thrown away from ``stop`` until ``clear``. So
a host that stops all dies of an array, and only then clears them, finds none with anything of before. Registers,
performance counters, the route table and the memory stay; update counters and their bases become 0, rows of the group
table unset.
"""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

#: Cycles for which a die throws away what is on the wires after all that it does itself has ended: more than a flit
#: or a credit is on its way.
SETTLE_CYCLES = 64


class Recovery(wiring.Component):
    """Takes a die from anything under way to nothing.

    Members
    -------
    stop : In(1)
        Pulse: stop what runs; ignored unless running or idle.
    clear : In(1)
        Pulse: what is stopped may start again; ignored unless ``stopped``.
    drained : In(1)
        Memory owes nothing, nor is it owed anything.
    reset : Out(1)
        Level: engines, scheduler, router and network interface stand in reset.
    drain : Out(1)
        Level: end what memory was asked for.
    flush : Out(1)
        Level, the last of ``reset``: what joins them to memory stands in reset too.
    apart : Out(1)
        Level: take nothing from links. What the router was sending may be on them for two cycles more; then it stands
        in reset, and behind that nothing asks it to send.
    stopping, stopped : Out(1)
        Levels: from ``stop`` to a cycle after ``reset``; from there to ``clear``.
    """

    stop: In(1)
    clear: In(1)
    drained: In(1)
    reset: Out(1)
    drain: Out(1)
    flush: Out(1)
    apart: Out(1)
    stopping: Out(1)
    stopped: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        settled, leaves = Signal(range(SETTLE_CYCLES)), Signal()
        m.d.comb += [self.reset.eq(self.drain | self.flush), self.stopping.eq(self.reset | leaves),
                     self.apart.eq(self.stopping | self.stopped)]
        with m.FSM():
            with m.State("RUN"), m.If(self.stop):
                m.next = "DRAIN"
            with m.State("DRAIN"):
                m.d.comb += self.drain.eq(1)
                m.d.sync += settled.eq(0)
                with m.If(self.drained):
                    m.next = "SETTLE"
            with m.State("SETTLE"):
                m.d.comb += self.flush.eq(1)
                m.d.sync += settled.eq(settled + 1)
                with m.If(settled == SETTLE_CYCLES - 1):
                    m.next = "LEAVE"
            with m.State("LEAVE"):
                m.d.comb += leaves.eq(1)
                m.next = "STOPPED"
            with m.State("STOPPED"):
                m.d.comb += self.stopped.eq(1)
                with m.If(self.clear):
                    m.next = "RUN"
        return m
