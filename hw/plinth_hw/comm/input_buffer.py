"""Input side of a router port: a buffer for each traffic class in one memory, with credits.

::

    link --> memory {class, place} ---------------------------> o      (read: one cycle)
        \\--> {own, same, tail} of each flit, a small memory a class --> head (what waits first in each class)

A flit written in cycle t is at the head from t + 1. The head tells what the switch must know before the
flit is read: whether it ends here, whether it has the same destination as the last flit before it in its
class that did not (then the route found for that one holds), and whether it ends its packet.
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
from plinth_hw.lib.count import following
from plinth_hw.lib.ram import UNCHECKED

#: What a router and the routes of an input tell each other.
ROUTES = ("sent", "route_write", "route", "known")


class Head(data.Struct):
    """What waits first in a class."""

    #: There is a flit; the other fields mean nothing otherwise.
    present: unsigned(1)
    #: It is for this die.
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
    select, read, pop : In
        Read the first flit of class ``select``; with ``pop`` also remove it.
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
            "select": In(ceil_log2(parameters.classes)),
            "read": In(1),
            "pop": In(1),
            "o": Out(stored_layout(parameters)),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        classes = self._parameters.classes
        flit = self.link.flit
        bits = ceil_log2(self._depth)
        # Places are walked in the order of `following`; a class never holds more than credits allow. The next to write
        # lies in memory, and is 0 until a first flit has come; that of the class that is read is known as well.
        taken = Signal(data.ArrayLayout(unsigned(bits), classes), name="taken")
        m.submodules.places = places = Memory(shape=unsigned(bits), depth=classes, init=[])
        following_place = places.write_port()
        place, place_selected = places.read_port(domain="comb"), places.read_port(domain="comb")
        begun, written = Signal(classes, name="begun"), Signal(bits, name="written")
        emptied, next_taken = Signal(name="emptied"), Signal(bits, name="next_taken")
        m.d.comb += [
            place.addr.eq(flit.traffic_class), place_selected.addr.eq(self.select),
            written.eq(Mux(begun.bit_select(flit.traffic_class, 1), place.data, 0)),
            following_place.en.eq(self.link.valid), following_place.addr.eq(flit.traffic_class),
            following_place.data.eq(following(written)),
            next_taken.eq(following(taken[self.select])), emptied.eq(next_taken == place_selected.data),
        ]
        with m.If(self.link.valid):
            m.d.sync += begun.bit_select(flit.traffic_class, 1).eq(1)

        m.submodules.flits = flits = Memory(shape=stored_layout(self._parameters), init=[], attrs=UNCHECKED,
                                            depth=self._depth << len(self.select))
        write, read = flits.write_port(), flits.read_port()
        m.d.comb += [
            write.en.eq(self.link.valid),
            write.addr.eq(Cat(written, flit.traffic_class)),
            *pack(write.data, flit),
            read.en.eq(self.read),
            read.addr.eq(Cat(taken[self.select], self.select)),
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

        if (ahead := self._ahead) is not None:
            m.submodules.ahead = ahead
            m.d.comb += [
                ahead.valid.eq(self.link.valid), ahead.flit.eq(flit), ahead.is_error.eq(is_error),
                ahead.place.eq(written), ahead.taken.eq(taken), ahead.same.eq(Cat(head.same for head in self.head)),
                ahead.sent.eq(self.sent), ahead.route_write.eq(self.route_write),
                self.route.eq(ahead.route), self.known.eq(ahead.known),
            ]
        for number, head in enumerate(self.head):
            # What is kept of each flit: not what is known of all.
            kept = [(head.same, same), *([] if self._local else [(head.own, ends_here)]),
                    *([(head.tail, flit.tail)] if number else [])]
            m.submodules[f"marks_{number}"] = marks = Memory(shape=unsigned(len(kept)), depth=self._depth, init=[])
            mark, marked = marks.write_port(), marks.read_port(domain="comb")
            arrives, leaves = Signal(name=f"arrives_{number}"), Signal(name=f"leaves_{number}")
            present = Signal(name=f"present_{number}")
            m.d.comb += [
                arrives.eq(self.link.valid & (flit.traffic_class == number)),
                leaves.eq(self.pop & (self.select == number)),
                mark.en.eq(arrives),
                mark.addr.eq(written),
                mark.data.eq(Cat(value for _, value in kept)),
                marked.addr.eq(taken[number]),
                head.present.eq(present), head.own.eq(0), head.tail.eq(1),
                Cat(field for field, _ in kept).eq(marked.data),
            ]
            m.d.sync += [
                present.eq(arrives | (present & ~(leaves & emptied))),
                self.link.credit[number].eq(leaves),
            ]
            with m.If(leaves):
                m.d.sync += taken[number].eq(next_taken)
        return m
