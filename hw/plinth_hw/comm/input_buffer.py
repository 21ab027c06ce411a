"""Input side of a router port: a buffer for each traffic class in one memory, with credits.

::

    link --> memory {class, place} -----------------------------------------------> o      (read: one cycle)
        \\--> {own, same, tail} of each flit, a small memory a class --> second --> head

A flit written in cycle t is at the head from t + 1. The head, a register, tells what the switch must know before the
flit is read: whether it ends here, whether it has the same destination as the last flit before it in its
class that did not (then the route found for that one holds), and whether it ends its packet. What comes after it is
looked up while the switch decides, so that only a choice follows the decision.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from plinth_hw.comm.flit import LinkSignature, PacketKind, flit_layout
from plinth_hw.comm.route_ahead import RouteAhead
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.choice import index_of, one_of
from plinth_hw.lib.count import following
from plinth_hw.lib.ram import UNCHECKED

#: What a router and the routes of an input tell each other.
ROUTES = ("sent", "route_write", "route", "known")


class Head(data.Struct):
    """What waits first in a class."""

    #: There is a flit, for another die.
    onward: unsigned(1)
    #: There is a flit, for this die. Where there is none the other fields mean nothing.
    own: unsigned(1)
    #: Same destination as the last flit before it in this class that did not end here, and the route table has not
    #: changed since.
    same: unsigned(1)
    #: It ends its packet.
    tail: unsigned(1)


_STORED = ("data", "words", "destination", "kind", "group", "message", "chunk")


def stored_layout(parameters: DieParameters) -> data.StructLayout:
    """What a buffer holds of a flit; class and tail are kept apart."""
    flit = flit_layout(parameters)
    return data.StructLayout({name: flit[name].shape for name in _STORED})


def pack(stored: data.View, flit: data.View) -> list[Any]:
    """Statements that put a flit into its stored form."""
    return [stored[name].eq(flit[name]) for name in _STORED]


def unpack(flit: data.View, stored: data.View, traffic_class: Any, tail: Any) -> list[Any]:
    """Statements that restore a flit."""
    return [*(flit[name].eq(stored[name]) for name in _STORED), flit.traffic_class.eq(traffic_class),
            flit.tail.eq(tail)]


class InputBuffer(wiring.Component):
    """Buffers of one router input, and of dies with transforms the routes of what is in them
    (:class:`~plinth_hw.comm.route_ahead.RouteAhead`).

    Parameters
    ----------
    parameters : DieParameters
        The die.
    depth : int
        Places a class; a power of two.
    local : bool
        Whether the input comes from this die: then nothing ends here.

    Members
    -------
    link : In, :class:`LinkSignature`
        Arriving flits; credits go back a cycle after a flit is popped.
    die : In
        This die's number.
    forget : In
        The route table changes: what arrives next is not ``same``.
    head : Out, array of :class:`Head`
        What waits in each class.
    select : In(classes), read, pop : In(1)
        Read the first flit of the class ``select``, one-hot or 0; with ``pop`` also remove it.
    o : Out, :func:`stored_layout`
        The flit read in the cycle before; holds until the next read.
    sent, route_write : In, route, known : Out
        As of that; of dies with transforms.

    Raises
    ------
    ValueError
        If ``depth`` is not a power of two.
    """

    def __init__(self, parameters: DieParameters, depth: int, local: bool = False):
        if depth < 2 or depth & (depth - 1):
            raise ValueError(f"Buffer depth must be a power of two above 1, not {depth!r}")
        self._parameters = parameters
        self._depth = depth
        self._local = local
        self._ahead = RouteAhead(parameters, depth) if parameters.looks_ahead else None
        super().__init__({
            **({name: self._ahead.signature.members[name] for name in ROUTES} if self._ahead else {}),
            "link": In(LinkSignature(parameters)),
            "die": In(parameters.die_bits),
            "forget": In(1),
            "head": Out(data.ArrayLayout(Head, parameters.classes)),
            "select": In(parameters.classes),
            "read": In(1),
            "pop": In(1),
            "o": Out(stored_layout(parameters)),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        classes = self._parameters.classes
        flit = self.link.flit
        bits = ceil_log2(self._depth)
        # Places are walked in the order of `following`; a class never holds more than credits allow. Of each class the
        # place of what waits first, and the next to write.
        taken, filled = (Signal(data.ArrayLayout(unsigned(bits), classes), name=name) for name in ("taken", "filled"))
        written = Signal(bits, name="written")
        m.d.comb += written.eq(filled[flit.traffic_class])

        m.submodules.flits = flits = Memory(shape=stored_layout(self._parameters), init=[], attrs=UNCHECKED,
                                            depth=self._depth << ceil_log2(classes))
        write, read = flits.write_port(), flits.read_port()
        m.d.comb += [
            write.en.eq(self.link.valid),
            write.addr.eq(Cat(written, flit.traffic_class)),
            *pack(write.data, flit),
            read.en.eq(self.read),
            read.addr.eq(Cat(one_of(self.select, taken), index_of(self.select))),
            self.o.eq(read.data),
        ]

        # An ERROR packet has a route of its own, whatever its destination, and comes from this die, or ends here.
        is_error, ends_here, same = Signal(name="is_error"), Signal(name="ends_here"), Signal(name="same")
        m.submodules.destinations = destinations = Memory(shape=flit.destination.shape(), depth=classes, init=[])
        destination, last_destination = destinations.write_port(), destinations.read_port(domain="comb")
        last_known = Signal(classes, name="last_known")
        m.d.comb += [
            is_error.eq((flit.traffic_class == 0) & (flit.kind == PacketKind.ERROR)),
            ends_here.eq(0 if self._local else (flit.destination == self.die) | is_error),
            same.eq(last_known.bit_select(flit.traffic_class, 1) & ~is_error
                    & (flit.destination == last_destination.data)),
            destination.en.eq(self.link.valid & ~ends_here), destination.addr.eq(flit.traffic_class),
            destination.data.eq(flit.destination), last_destination.addr.eq(flit.traffic_class),
        ]
        with m.If(destination.en):
            m.d.sync += last_known.bit_select(flit.traffic_class, 1).eq(~is_error)
        with m.If(self.forget):
            m.d.sync += last_known.eq(0)

        # By class: a flit arrives, and is first in the next cycle; the first one leaves; there is none behind that.
        arrives, fresh, leaves, alone = (
            Signal(classes, name=name) for name in ("arrives", "fresh", "leaves", "alone"))
        for number, head in enumerate(self.head):
            # What is kept of each flit: not what is known of all.
            told = [(head.same, same), *([(head.tail, flit.tail)] if number else [])]
            kept = Cat(*(value for _, value in told), *([] if self._local else [ends_here]))
            mark, second = Signal(len(told), name=f"mark_{number}"), Signal(bits, name=f"second_{number}")
            onward, own = Signal(name=f"onward_{number}"), Signal(name=f"own_{number}")
            m.submodules[f"marks_{number}"] = marks = Memory(shape=unsigned(len(kept)), depth=self._depth, init=[])
            keeps, follows = marks.write_port(), marks.read_port(domain="comb")
            m.d.comb += [
                arrives[number].eq(self.link.valid & (flit.traffic_class == number)),
                leaves[number].eq(self.pop & self.select[number]),
                fresh[number].eq(arrives[number] & Mux(leaves[number], alone[number], ~(onward | own))),
                second.eq(following(taken[number])), alone[number].eq(second == filled[number]),
                keeps.en.eq(arrives[number]), keeps.addr.eq(written), keeps.data.eq(kept), follows.addr.eq(second),
                head.tail.eq(1), Cat(field for field, _ in told).eq(mark), head.onward.eq(onward), head.own.eq(own),
            ]
            m.d.sync += self.link.credit[number].eq(leaves[number])
            with m.If(arrives[number]):
                m.d.sync += filled[number].eq(following(filled[number]))
            with m.If(leaves[number]):
                m.d.sync += taken[number].eq(second)
            for begins, there, first in ((leaves[number], ~alone[number], follows.data), (fresh[number], 1, kept)):
                ends = 0 if self._local else first[-1]
                with m.If(begins):
                    m.d.sync += [mark.eq(first), onward.eq(there & ~ends), own.eq(there & ends)]
        if (ahead := self._ahead) is not None:
            m.submodules.ahead = ahead
            m.d.comb += [
                ahead.valid.eq(self.link.valid), ahead.flit.eq(flit), ahead.is_error.eq(is_error),
                ahead.place.eq(written), ahead.taken.eq(taken), ahead.same.eq(Cat(head.same for head in self.head)),
                ahead.leaves.eq(leaves), ahead.fresh.eq(fresh), ahead.sent.eq(self.sent),
                ahead.route_write.eq(self.route_write), self.route.eq(ahead.route), self.known.eq(ahead.known),
            ]
        return m
