"""Runs SET_ROUTE tasks: writes routes of a kind of traffic once the router holds none of it.

::

    body --> checks, port by port --> waits for quiet --> write, port by port --> done, error

Latency from ``start`` to ``done``, in cycles: 2 and twice the task's destinations, if the router is quiet. A task that
is refused has written nothing, but for one whose traffic came while it wrote. Source: DESIGN "One network" (routes set
by tasks, fenced).
"""

from typing import Any

from amaranth.hdl import Array, Module, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.control.routes import task_write_layout
from plinth_hw.isa.limits import reset_value
from plinth_hw.isa.operations import ErrorCode, Traffic
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.registers import Register
from plinth_hw.isa.update_bodies import ROUTES_SET, RouteBody
from plinth_hw.shapes import shape_of


class RouteSetter(wiring.Component):
    """The writes of a SET_ROUTE task.

    Parameters
    ----------
    parameters : DieParameters
        The die.

    Members
    -------
    start : In(1)
        The task may run; holds, as ``body`` does, until ``done``.
    body : In, :class:`~plinth_hw.isa.update_bodies.RouteBody`
    dies : In
        Dies of the array.
    quiet : In(kinds of traffic)
        The router holds no flit of that kind, and is in the middle of none of its packets.
    write : Out, :func:`~plinth_hw.control.routes.task_write_layout`
        A route.
    done : Out(1)
        A pulse: the task has ended.
    error : Out
        With ``done``: BAD_OPERAND for no destination or more than there are places for, or an unknown kind of traffic;
        BAD_ROUTE for a destination beyond ``dies``, a port that the router does not have, or traffic of that kind that
        came between the first write and the last.
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        super().__init__({
            "start": In(1), "body": In(shape_of(RouteBody)),
            "dies": In(parameters.die_bits + 1, init=reset_value(Register.DIES, parameters)),
            "quiet": In(len(Traffic)), "write": Out(task_write_layout(parameters)),
            "done": Out(1), "error": Out(shape_of(ErrorCode)),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        body, write, traffic = self.body, self.write, self.body.traffic.as_value()
        place, port, last = Signal(range(ROUTES_SET + 1)), Signal(unsigned(8)), Signal(name="last")
        bad_operand, bad_route, quiet = Signal(name="bad_operand"), Signal(name="bad_route"), Signal(name="is_quiet")
        m.d.comb += [
            port.eq(Array(body.ports)[place]), last.eq(place + 1 == body.dies),
            quiet.eq(self.quiet.bit_select(traffic, 1)),
            write.destination.eq(body.first_die + place), write.port.eq(port), write.traffic.eq(1 << traffic),
            self.error.eq(ErrorCode.NONE),
        ]
        with m.If(bad_operand):
            m.d.comb += self.error.eq(ErrorCode.BAD_OPERAND)
        with m.Elif(bad_route):
            m.d.comb += self.error.eq(ErrorCode.BAD_ROUTE)
        with m.FSM():
            with m.State("START"), m.If(self.start):
                m.d.sync += [
                    place.eq(0),
                    bad_operand.eq((body.dies == 0) | (body.dies > ROUTES_SET) | (traffic >= len(Traffic))),
                    bad_route.eq(body.first_die + body.dies > self.dies),
                ]
                m.next = "CHECK"
            with m.State("CHECK"):
                m.d.sync += place.eq(place + 1)
                with m.If(port >= self.parameters.ports):
                    m.d.sync += bad_route.eq(1)
                with m.If(bad_operand):
                    m.next = "END"
                with m.Elif(last):
                    m.next = "QUIET"
            with m.State("QUIET"):
                m.d.sync += place.eq(0)
                with m.If(bad_route):
                    m.next = "END"
                with m.Elif(quiet):
                    m.next = "WRITE"
            with m.State("WRITE"):
                m.d.comb += write.valid.eq(1)
                m.d.sync += place.eq(place + 1)
                with m.If(~quiet):
                    m.d.sync += bad_route.eq(1)
                with m.If(last):
                    m.next = "END"
            with m.State("END"):
                m.d.comb += self.done.eq(1)
                m.next = "START"
        return m
