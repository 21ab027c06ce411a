"""Output side of the router: what may leave in this cycle, who of those that ask does, and the flit behind them.

::

    may --> (switch) --> asks, tails, chosen --> grant --+--> hold, credits, tokens --> may
                                                         |
    read_0 ... (of the granted source, a cycle later) ---+--> reg --> link       (:class:`LinkOutput`)
                                                         +--> queue --> o        (:class:`PacketQueue`)

A packet holds its output and class from its first flit to its tail (:class:`PacketHold`). A link has credits for each
class, and carries a rational number of flits a cycle (:class:`TokenBucket`). A queue stands before each class's
ejection stream; dies that look ahead have one for each link, before it for tiles of their own, and behind it for tiles
that end here, which :class:`PacketMerge` joins.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.arith.carry import chosen_sum, stepped_sum
from plinth_hw.comm.flit import LinkSignature, PacketKind, taken_layout
from plinth_hw.comm.input_buffer import stored_layout, unpack
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.registers import LinkRate
from plinth_hw.lib.arbiter import RoundRobin
from plinth_hw.lib.choice import index_of, one_of
from plinth_hw.lib.count import count_bits, count_of, counted
from plinth_hw.lib.fifo import FIFO
from plinth_hw.shapes import shape_of

#: Flits that wait for a class's ejection stream.
EJECT_FLITS = 4
#: Tiles' flits that wait, of dies that look ahead, behind a link to end here, and before one.
TILE_FLITS = 16


class PacketHold(wiring.Component):
    """Which source holds an output of a class: nobody, or from a packet's first flit to its tail whoever sent that.

    Parameters
    ----------
    sources : int

    Members
    -------
    sends : In(1)
        A flit leaves.
    grant : In(sources)
        With ``sends``, whose it is: one-hot.
    tail : In(1)
        With ``sends``, it ends its packet.
    has : Out(sources)
        The one that holds the output.
    may : Out(sources)
        All if nobody holds it, or the one that does: those that no other keeps from it.
    """

    def __init__(self, sources: int):
        self.sources = sources
        super().__init__({"sends": In(1), "grant": In(sources), "tail": In(1), "has": Out(sources),
                          "may": Out(sources)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        others = (Cat(self.has[:source], self.has[source + 1:]) for source in range(self.sources))
        m.d.comb += self.may.eq(Cat(~held.any() for held in others))
        with m.If(self.sends):
            m.d.sync += self.has.eq(Mux(self.tail, 0, self.grant))
        return m


class TokenBucket(wiring.Component):
    """Lets ``numerator / denominator`` flits a cycle through, or one a cycle if that is more.

    ``numerator`` tokens come each cycle, a flit takes ``denominator``; what is saved up stays below one flit more
    than a flit. After reset a flit is.

    Members
    -------
    numerator, denominator : In(8)
    sends : In(1)
        A flit goes; not without ``allowed``.
    allowed : Out(1)
        A flit may go.
    """

    numerator: In(8)
    denominator: In(8)
    sends: In(1)
    allowed: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # Tokens beyond those of a flit, and what they change by with a flit.
        surplus, change = Signal(signed(9), name="surplus"), Signal(signed(9), name="change")
        m.d.comb += [change.eq(self.numerator - self.denominator), self.allowed.eq(surplus >= 0)]
        after = chosen_sum(m, platform, "after", self.sends, change, self.numerator, surplus)
        with m.If(change >= 0):
            m.d.sync += surplus.eq(0)
        with m.Elif(self.sends | ~self.allowed):
            m.d.sync += surplus.eq(after)
        return m


class LinkOutput(wiring.Component):
    """A link's output: all inputs of the router but that link's own are its sources, and of dies that look ahead the
    queue of this die's tiles that leave here. Others' tiles go before these, until as many of their flits have gone as
    the longest packet has.

    Bubble rule: the first flit of a packet that enters a ring direction waits until two packets of the greatest length
    have room downstream, of one that goes straight on (from port p to port p xor 1) until one has; a packet of class 0
    is a flit.

    Parameters
    ----------
    parameters : DieParameters
        The die.
    port : int
        The link.

    Members
    -------
    may : Out, array of bits
        By class, the sources that may ask for a flit of that class.
    asks : In, array of bits
        By class, the sources that ask: of those that may, and each for one class.
    chosen : In, array of ``classes`` bits
        By source, the class for which it asks, if it asks anything: one-hot.
    tails : In
        By source, whether its flit ends its packet.
    grant : Out
        The source whose flit leaves, in the cycle of ``asks``; it reads that flit. Class 0 goes first.
    read_0 ... : In, :func:`~plinth_hw.comm.input_buffer.stored_layout`
        By source, what was read in the cycle before.
    link : Out, :class:`~plinth_hw.comm.flit.LinkSignature`
        A flit is here two cycles after ``grant``.
    rate : In, :class:`~plinth_hw.isa.registers.LinkRate`
        Flits a cycle.
    paused : In(1)
        Nothing is granted; what was may be on the link in this cycle and the next two.
    drops : In(1)
        Whatever leaves is thrown away: no credit is waited for, until the next reset.
    injected, transit : Out
        Payload words that are read, from this die and from other dies, a cycle before they are on the link. ADVANCE
        and ERROR packets have none.
    words : Out
        Payload words on the link.
    open : Out(classes)
        A packet of that class has begun, and its tail has not gone yet; of dies that set routes.

    Attributes
    ----------
    sources : list of int
        The router's inputs, links and then this die, that may ask; one more for the queue of its tiles.
    """

    def __init__(self, parameters: DieParameters, port: int):
        self.parameters = parameters
        self.port = port
        self.sources = [index for index in range(parameters.ports + 1 + parameters.looks_ahead) if index != port]
        sources, words = len(self.sources), parameters.flit_words.bit_length()
        by_class = data.ArrayLayout(unsigned(sources), parameters.classes)
        super().__init__({
            "may": Out(by_class), "asks": In(by_class),
            "chosen": In(data.ArrayLayout(unsigned(parameters.classes), sources)),
            "tails": In(sources), "grant": Out(sources),
            **{f"read_{source}": In(stored_layout(parameters)) for source in range(sources)},
            "link": Out(LinkSignature(parameters)),
            "rate": In(shape_of(LinkRate)), "paused": In(1), "drops": In(1),
            "injected": Out(words), "transit": Out(words), "words": Out(words),
            **({"open": Out(parameters.classes)} if parameters.sets_routes else {}),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        classes, sources = self.parameters.classes, len(self.sources)
        sends, leaving, tail = Signal(name="sends"), Signal(classes, name="leaving"), Signal(name="tail")
        allowed = Signal(name="allowed")
        m.submodules.turn = turn = RoundRobin(sources)
        m.submodules.bucket = bucket = TokenBucket()
        requests: list[Value] = [Cat(self.asks[number][source] for number in range(classes)).any()
                                 for source in range(sources)]
        if self.parameters.looks_ahead:
            requests[-1] &= self._lets(m, turn.grant, sends & leaving[self.parameters.transfer_class])
        request = Cat(requests)
        m.d.comb += [
            turn.requests.eq(Mux(self.asks[0].any(), self.asks[0], request)), turn.taken.eq(1),
            self.grant.eq(turn.grant), sends.eq(request.any()),
            leaving.eq(one_of(turn.grant, self.chosen)), tail.eq(one_of(turn.grant, self.tails)),
            bucket.numerator.eq(self.rate.numerator), bucket.denominator.eq(self.rate.denominator),
            bucket.sends.eq(sends), allowed.eq(bucket.allowed & ~self.paused),
        ]
        for number in range(classes):
            m.submodules[f"hold_{number}"] = hold = PacketHold(sources)
            has_room = self._credits(m, platform, number, hold.sends)
            m.d.comb += [
                hold.sends.eq(sends & leaving[number]), hold.grant.eq(turn.grant), hold.tail.eq(tail),
                self.may[number].eq(Cat(
                    allowed & hold.may[source] & (
                        self.drops | Mux(hold.has[source], has_room[1], has_room[room]))
                    for source, room in enumerate(self._rooms(number)))),
            ]
            if self.parameters.sets_routes:
                m.d.comb += self.open[number].eq(hold.has.any())
        self._send(m, sends, leaving, tail)
        return m

    def _credits(self, m: Module, platform: object, number: int, sends: Value) -> dict[int, Value]:
        """Counts the credits of a class, of which one goes in a cycle that ``sends``. Tells, from registers, whether
        there is room downstream for one flit, and for what packets of each source wait for: by how many flits."""
        most, credit = self.parameters.link_buffer_flits, self.link.credit[number]
        credits = Signal(range(most + 1), init=most, name=f"credits_{number}")
        has_room = {room: Signal(init=room <= most, name=f"has_{room}_{number}")
                    for room in sorted({1, *self._rooms(number)})}
        m.d.sync += [
            credits.eq(stepped_sum(m, platform, f"credits_{number}_after", credits, credit, sends)),
            *(there.eq(Mux(sends, Mux(credit, credits >= room, credits >= room + 1),
                           Mux(credit, credits >= room - 1, credits >= room)))
              for room, there in has_room.items()),
        ]
        return has_room

    def _lets(self, m: Module, grant: Value, sends: Value) -> Value:
        """Whether this die's tiles may ask beside those of others, one of which, or theirs, ``sends``."""
        others = self.asks[self.parameters.transfer_class][:-1].any()
        # Flits of others since this die's last one.
        passed = Signal(range(self.parameters.packet_flits + 1), name="passed")
        due = passed == self.parameters.packet_flits
        with m.If(sends):
            m.d.sync += passed.eq(Mux(grant[-1], 0, passed + ~due))
        return ~others | due

    def _rooms(self, number: int) -> list[int]:
        """Free places downstream for which a packet of a class waits, by source: the bubble rule."""
        local, straight = self.parameters.ports, self.port ^ 1
        length = self.parameters.packet_flits if number else 1
        return [length if source == straight != local else 2 * length for source in self.sources]

    def _send(self, m: Module, sends: Value, leaving: Value, tail: Value) -> None:
        """A cycle after the grant the flit is at the source's output; one more, and it is on the link."""
        parameters = self.parameters
        read, read_tail = Signal(name="read"), Signal(name="read_tail")
        read_class = Signal(range(parameters.classes), name="read_class")
        read_grant = Signal(len(self.sources), name="read_grant")
        words, has_words = Signal(len(self.words), name="read_words"), Signal(name="has_words")
        m.d.sync += [read.eq(sends), read_class.eq(index_of(leaving)), read_grant.eq(self.grant), read_tail.eq(tail)]
        stored = data.View(stored_layout(parameters), one_of(
            read_grant, (getattr(self, f"read_{source}").as_value() for source in range(len(self.sources)))))
        from_here: Value = read_grant[self.sources.index(parameters.ports)]
        if parameters.looks_ahead:
            from_here |= read_grant[-1]
        m.d.comb += [
            has_words.eq(Mux(read_class == parameters.transfer_class, stored.kind != PacketKind.ADVANCE,
                             read_class != 0)),
            words.eq(Mux(read & has_words, stored.words + 1, 0)),
            self.injected.eq(Mux(from_here, words, 0)), self.transit.eq(Mux(from_here, 0, words)),
        ]
        m.d.sync += [self.link.valid.eq(read), self.words.eq(words)]
        with m.If(read):
            m.d.sync += unpack(self.link.flit, stored, read_class, read_tail)


class PacketQueue(wiring.Component):
    """A queue before which packets of several sources wait for each other.

    Parameters
    ----------
    parameters : DieParameters
        The die.
    layout : data.StructLayout
        What it keeps of a flit: of its stored form, and ``tail``.
    sources : int
    depth : int
        Flits.

    Members
    -------
    may : Out
        The sources that may ask.
    asks : In
        The sources that ask: of those that may.
    tails : In
        By source, whether its flit ends its packet.
    grant : Out
        The source whose flit is taken, in the cycle of ``asks``; it reads that flit. Sources take turns.
    read_0 ... : In, :func:`~plinth_hw.comm.input_buffer.stored_layout`
        By source, what was read in the cycle before.
    o : Out stream of ``layout``
        A flit is here two cycles after ``grant``, or later.
    holds : Out
        Flits are here, or a packet's tail has not come yet; of dies that set routes.
    """

    def __init__(self, parameters: DieParameters, layout: data.StructLayout, sources: int, depth: int):
        self.parameters = parameters
        self.sources = sources
        self.depth = depth
        super().__init__({
            "may": Out(sources), "asks": In(sources), "tails": In(sources), "grant": Out(sources),
            **{f"read_{source}": In(stored_layout(parameters)) for source in range(sources)},
            "o": Out(stream.Signature(layout)),
            **({"holds": Out(1)} if parameters.sets_routes else {}),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        layout, sources, depth = self.o.payload.shape(), self.sources, self.depth
        takes, tail = Signal(name="takes"), Signal(name="tail")
        read, read_tail = Signal(name="read"), Signal(name="read_tail")
        read_grant = Signal(sources, name="read_grant")
        # Flits that were granted, and those for which the queue has had room; while these differ there is more.
        bits = count_bits(depth)
        granted, room = Signal(bits, name="granted"), Signal(bits, init=count_of(depth, bits), name="room")
        m.submodules.turn = turn = RoundRobin(sources)
        m.submodules.hold = hold = PacketHold(sources)
        m.submodules.queue = queue = FIFO(layout, depth)
        stored = data.View(stored_layout(self.parameters), one_of(
            read_grant, (getattr(self, f"read_{source}").as_value() for source in range(sources))))
        m.d.comb += [
            turn.requests.eq(self.asks), turn.taken.eq(1), self.grant.eq(turn.grant), takes.eq(self.asks.any()),
            tail.eq(one_of(turn.grant, self.tails)),
            hold.sends.eq(takes), hold.grant.eq(turn.grant), hold.tail.eq(tail),
            self.may.eq(Cat((granted != room) & may for may in hold.may)),
            queue.i.valid.eq(read),
            *(queue.i.payload[name].eq(read_tail if name == "tail" else stored[name]) for name, _ in layout),
        ]
        m.d.sync += [
            read.eq(takes), read_tail.eq(tail), read_grant.eq(turn.grant),
        ]
        with m.If(takes):
            m.d.sync += granted.eq(counted(granted))
        leaves = self.o.valid & self.o.ready
        with m.If(leaves):
            m.d.sync += room.eq(counted(room))
        if self.parameters.sets_routes:
            left = Signal(bits, name="left")
            m.d.comb += self.holds.eq((granted != left) | hold.has.any())
            with m.If(leaves):
                m.d.sync += left.eq(counted(left))
        wiring.connect(m, queue.o, wiring.flipped(self.o))
        return m


class Ejection(PacketQueue):
    """What of a class is for this die: the links are its sources.

    Parameters
    ----------
    parameters : DieParameters
        The die.
    number : int
        The class: ``o`` is of its :func:`~plinth_hw.comm.flit.taken_layout`.
    """

    def __init__(self, parameters: DieParameters, number: int):
        super().__init__(parameters, taken_layout(parameters, number), parameters.ports, EJECT_FLITS)


class PacketMerge(wiring.Component):
    """Joins streams of packets, packet by packet, in turn. No latency.

    Parameters
    ----------
    layout : data.StructLayout
        Flits, with ``tail``.
    sources : int

    Members
    -------
    i_0 ... : In streams of ``layout``
    o : Out stream of ``layout``
    """

    def __init__(self, layout: data.StructLayout, sources: int):
        self.sources = sources
        flit = stream.Signature(layout)
        super().__init__({**{f"i_{source}": In(flit) for source in range(sources)}, "o": Out(flit)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        streams = [getattr(self, f"i_{source}") for source in range(self.sources)]
        m.submodules.turn = turn = RoundRobin(self.sources)
        m.submodules.hold = hold = PacketHold(self.sources)
        m.d.comb += [
            turn.requests.eq(Cat(stream.valid for stream in streams) & hold.may), turn.taken.eq(1),
            # What is offered stays until it is taken.
            hold.sends.eq(self.o.valid), hold.grant.eq(turn.grant), hold.tail.eq(self.o.ready & self.o.payload.tail),
            self.o.valid.eq(turn.grant.any()),
            self.o.payload.eq(one_of(turn.grant, (stream.payload.as_value() for stream in streams))),
            *(stream.ready.eq(self.o.ready & granted) for stream, granted in zip(streams, turn.grant, strict=True)),
        ]
        return m
