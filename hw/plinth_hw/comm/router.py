"""Router of a die: ``ports`` links and the local side, a virtual channel per traffic class, credits.

::

    link_in_p --> InputBuffer --+            +--> reg --> link_out_p      (credits, rate)
    inject -----> InputBuffer --+-- switch --+
                      | heads                +--> queue --> eject_c       (one a class)
                  route lookup

A packet goes from its input to one output, class by class: it holds (output, class) until its tail has
passed, so packets of a class are never mixed, while packets of different classes are. A packet for this
die ends at ``eject_c``; any other leaves by the port that the route table names. If it names none, or the
port by which the packet came, the packet is thrown away, and ``lost`` says so. Class 0 goes first, other
classes and inputs take turns.

Bubble rule for control and transfer packets: one that enters a ring direction (from this die, or by a turn)
starts when two packets of the greatest length have room downstream, one that goes straight on (from port p to
port p xor 1) when one has. So a ring always keeps room for a packet and cannot deadlock. An ERROR packet
leaves by the port that it names and ends at the next die, whatever its destination.

Latency in cycles, from the cycle in which a flit is on ``link_in`` or ``inject``: 3 to ``eject``; 4 to
``link_out``, 7 when the route must be looked up because the destination differs from that of the last
packet before that did not end here; one packet is looked up at a time. Throughput: a flit a cycle from each
input, to each output, and out of each class, and three cycles more for a packet whose route is looked up; a
link's output carries ``rate_numerator / rate_denominator`` flits a cycle.
Source: MPT section VI (memory-centric network), DESIGN "One network".
"""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.flit import LinkSignature, PacketKind, taken_layout
from plinth_hw.comm.input_buffer import InputBuffer, stored_layout, unpack
from plinth_hw.control.routes import lost_layout, port_bits, route_table, route_write_layout
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.arbiter import RoundRobin, lowest
from plinth_hw.lib.choice import index_of, one_of
from plinth_hw.lib.count import stepped
from plinth_hw.lib.fifo import FIFO

#: Flits that wait for a class's ejection stream.
EJECT_FLITS = 4


class Router(wiring.Component):
    """Moves flits between links and this die.

    Parameters
    ----------
    parameters : DieParameters
        The die.

    Members
    -------
    link_out_0 ... : Out, :class:`LinkSignature`
    link_in_0 ... : In, :class:`LinkSignature`
    inject : In, :class:`LinkSignature`
        Flits of this die, a cycle each, never refused: the sender starts with
        ``parameters.inject_buffer_flits`` credits a class.
    eject_0 ... : Out streams of :func:`taken_layout` of each class
        Flits from links for this die. Backpressure holds only that class.
    die : In
        This die's number.
    rate_numerator, rate_denominator : In
        Flits a cycle on each link.
    route_write : In
        ``valid``, ``destination``, ``port``: writes the route table. Takes effect for packets whose
        first flit arrives later; meant for an idle network. Until it is written no port leads to a destination.
    lost : Out, :func:`lost_layout`
        A pulse for each flit that is thrown away.
    injected_words, transit_words : Out
        Payload words that left for a link in this cycle, from this die and from other dies. ADVANCE and
        ERROR packets have none.
    port_words : Out, array
        Payload words sent on each link in this cycle.
    """

    def __init__(self, parameters: DieParameters):
        self._parameters = parameters
        self._ports = parameters.ports
        self._classes = parameters.classes
        self._port_bits = port_bits(parameters)
        words = parameters.flit_words
        link = LinkSignature(parameters)
        super().__init__({
            **{f"link_out_{port}": Out(link) for port in range(parameters.ports)},
            **{f"link_in_{port}": In(link) for port in range(parameters.ports)},
            "inject": In(link),
            **{f"eject_{number}": Out(stream.Signature(taken_layout(parameters, number)))
               for number in range(parameters.classes)},
            "die": In(parameters.die_bits),
            "rate_numerator": In(8),
            "rate_denominator": In(8),
            "route_write": In(route_write_layout(parameters)),
            "lost": Out(lost_layout(parameters)),
            "injected_words": Out(range(words * parameters.ports + 1)),
            "transit_words": Out(range(words * parameters.ports + 1)),
            "port_words": Out(data.ArrayLayout(unsigned(words.bit_length()), parameters.ports)),
        })

    @property
    def parameters(self) -> DieParameters:
        """The die."""
        return self._parameters

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        parameters, ports, classes = self._parameters, self._ports, self._classes
        #: Inputs are the links, then this die; outputs are the links, then the ejection of each class.
        local = ports
        inputs = []
        for port in range(ports):
            m.submodules[f"input_{port}"] = buffer = InputBuffer(parameters, parameters.link_buffer_flits)
            wiring.connect(m, wiring.flipped(getattr(self, f"link_in_{port}")), buffer.link)
            inputs.append(buffer)
        m.submodules.input_local = buffer = InputBuffer(parameters, parameters.inject_buffer_flits,
                                                        local=True)
        wiring.connect(m, wiring.flipped(self.inject), buffer.link)
        inputs.append(buffer)
        for buffer in inputs:
            m.d.comb += [buffer.die.eq(self.die), buffer.forget.eq(self.route_write.valid)]

        route, resolved, lookup = self._lookup(m, inputs)
        room = [self._link_room(m, port) for port in range(ports)]
        space = [self._eject_space(m, number) for number in range(classes)]

        # One class of each input asks for its output.
        chosen, asks, tails = [], [], []
        for index, buffer in enumerate(inputs):
            possible, wants = Signal(classes, name=f"possible_{index}"), []
            for number in range(classes):
                head = buffer.head[number]
                onward = head.present & ~head.own & (head.same | resolved[index][number])
                ports_on = [port for port in range(ports) if port != index]
                want: dict[Any, Value] = {
                    ("link", port): onward & route[index][number][port]
                    & room[port].may(number, index, enters=index in (local, port) or index != port ^ 1)
                    for port in ports_on
                }
                want["lost"] = onward & ~Cat(route[index][number][port] for port in ports_on).any()
                if index != local:
                    want["eject", number] = head.present & head.own & space[number].may(index)
                wants.append(want)
                m.d.comb += possible[number].eq(Cat(*want.values()).any())
            m.submodules[f"class_turn_{index}"] = turn = RoundRobin(classes - 1)
            choice = Signal(classes, name=f"chosen_{index}")
            m.d.comb += [
                turn.requests.eq(possible[1:]), turn.taken.eq(~possible[0]),
                choice.eq(Mux(possible[0], 1, Cat(0, turn.grant)) & ~lookup[index].replicate(classes)),
            ]
            chosen.append(choice)
            asks.append([{output: choice[number] & value for output, value in want.items()}
                         for number, want in enumerate(wants)])
            tails.append((Cat(head.tail for head in buffer.head) & choice).any())

        granted: list[list[Value]] = [[Cat(ask["lost"] for ask in asked).any()] for asked in asks]
        self._report_lost(m, inputs, Cat(grants[0] for grants in granted))
        for port in range(ports):
            self._link_output(m, port, inputs, chosen, asks, tails, granted, room[port])
        for number in range(classes):
            self._ejection(m, number, inputs, asks, tails, granted, space[number])
        for index, buffer in enumerate(inputs):
            moves = Signal(name=f"moves_{index}")
            m.d.comb += [
                moves.eq(Cat(*granted[index]).any()),
                buffer.pop.eq(moves),
                buffer.read.eq(moves | lookup[index]),
                buffer.select.eq(index_of(Mux(lookup[index], self._looked_up_class, chosen[index]))),
            ]
            for number in range(classes):
                with m.If(moves & chosen[index][number]):
                    m.d.sync += resolved[index][number].eq(0)
        return m

    def _report_lost(self, m: Module, inputs: list[InputBuffer], lost: Value) -> None:
        """A flit that is lost is at its buffer's output a cycle later; of several in a cycle one is reported."""
        read = Signal(len(inputs), name="lost_read")
        m.d.sync += [
            read.eq(lowest(lost)), self.lost.valid.eq(read.any()),
            self.lost.die.eq(one_of(read, (buffer.o.destination for buffer in inputs))),
        ]

    def _lookup(self, m: Module, inputs: list[InputBuffer]) -> tuple[list, list, list]:
        """Finds the port of packets whose destination differs from the one before: one at a time.

        Returns, by input and class, the port as a bit of several, none if no route is known, and whether it was looked
        up for the flit that waits; and, by input, whether the lookup reads that input's buffer in this cycle.
        """
        parameters, classes = self._parameters, self._classes
        m.submodules.routes = routes = route_table(parameters, self._ports)
        write, read = routes.write_port(), routes.read_port()
        route = [[Signal(self._ports, name=f"route_{index}_{number}") for number in range(classes)]
                 for index in range(len(inputs))]
        resolved = [[Signal(name=f"resolved_{index}_{number}") for number in range(classes)]
                    for index in range(len(inputs))]
        requests = Cat(buffer.head[number].present & ~buffer.head[number].own & ~buffer.head[number].same
                       & ~resolved[index][number]
                       for index, buffer in enumerate(inputs) for number in range(classes))
        m.submodules.lookup_turn = turn = RoundRobin(len(requests))
        start = Signal()
        self._looked_up_class = Signal(classes)
        lookup = [Signal(name=f"lookup_{index}") for index in range(len(inputs))]
        for index in range(len(inputs)):
            m.d.comb += lookup[index].eq(start & turn.grant[index * classes:(index + 1) * classes].any())
        m.d.comb += [
            turn.requests.eq(requests), turn.taken.eq(start),
            self._looked_up_class.eq(Cat(
                Cat(turn.grant[number::classes]).any() for number in range(classes))),
            write.en.eq(self.route_write.valid),
            write.addr.eq(self.route_write.destination),
            write.data.eq(self._one_hot(self.route_write.port)),
        ]
        source = Signal(range(len(inputs)))
        names_port, named_port = Signal(), Signal(self._ports)
        waiting = Array(buffer.o.as_value() for buffer in inputs)[source]
        head = data.View(stored_layout(parameters), waiting)
        m.d.comb += [read.addr.eq(head.destination), read.en.eq(1)]
        with m.FSM():
            with m.State("REQUEST"), m.If(requests.any()):
                m.d.comb += start.eq(1)
                m.d.sync += source.eq(index_of(Cat(lookup)))
                m.next = "DESTINATION"
            with m.State("DESTINATION"):
                # Only ERROR packets of this die get here with that kind.
                m.d.sync += [names_port.eq(head.kind == PacketKind.ERROR), named_port.eq(self._one_hot(head.message))]
                m.next = "PORT"
            with m.State("PORT"):
                for index in range(len(inputs)):
                    for number in range(classes):
                        with m.If(turn.last[index * classes + number]):
                            m.d.sync += [
                                route[index][number].eq(Mux(names_port, named_port, read.data)),
                                resolved[index][number].eq(1),
                            ]
                m.next = "REQUEST"
        return route, resolved, lookup

    def _one_hot(self, port: Value) -> Value:
        """The bit of a port."""
        return Cat(port == number for number in range(self._ports))

    def _link_room(self, m: Module, port: int) -> "_LinkRoom":
        return _LinkRoom(m, self, port)

    def _eject_space(self, m: Module, number: int) -> "_EjectSpace":
        return _EjectSpace(m, self, number)

    def _link_output(self, m: Module, port: int, inputs: list[InputBuffer], chosen: list, asks: list,
                     tails: list, granted: list[list[Value]], room: "_LinkRoom") -> None:
        classes, local = self._classes, self._ports
        link = getattr(self, f"link_out_{port}")
        sources = [index for index in range(len(inputs)) if index != port]
        key = ("link", port)
        request = Cat(Cat(asks[index][number][key] for number in range(classes)).any() for index in sources)
        control = Cat(asks[index][0][key] for index in sources)
        m.submodules[f"link_turn_{port}"] = turn = RoundRobin(len(sources))
        grant, sends = turn.grant, Signal(name=f"sends_{port}")
        m.d.comb += [turn.requests.eq(Mux(control.any(), control, request)), turn.taken.eq(1), sends.eq(request.any())]
        for bit, index in enumerate(sources):
            granted[index].append(grant[bit])
        number = Signal(classes, name=f"class_{port}")
        m.d.comb += number.eq(one_of(grant, [chosen[index] for index in sources]))
        room.sent(sends, number, grant, sources, one_of(grant, [tails[index] for index in sources]))

        # A cycle later the flit is at the buffer's output; one more, and it is on the link.
        read, read_class = Signal(name=f"read_{port}"), Signal(range(classes), name=f"read_class_{port}")
        read_tail = Signal(name=f"read_tail_{port}")
        read_grant = Signal(len(sources), name=f"read_grant_{port}")
        m.d.sync += [
            read.eq(sends), read_class.eq(index_of(number)), read_grant.eq(grant),
            read_tail.eq(one_of(grant, [tails[index] for index in sources])),
        ]
        stored = data.View(stored_layout(self._parameters),
                           one_of(read_grant, [inputs[index].o.as_value() for index in sources]))
        words = Signal(len(self.port_words[0]), name=f"words_{port}")
        has_words = Signal(name=f"has_words_{port}")
        m.d.comb += [
            has_words.eq(Mux(read_class == self._parameters.transfer_class, stored.kind != PacketKind.ADVANCE,
                             read_class != 0)),
            words.eq(Mux(read & has_words, stored.words + 1, 0)),
        ]
        m.d.sync += [link.valid.eq(read), self.port_words[port].eq(words)]
        with m.If(read):
            m.d.sync += unpack(link.flit, stored, read_class, read_tail)
        from_here = read_grant[sources.index(local)]
        room.injected = Mux(from_here, words, 0)
        room.transit = Mux(from_here, 0, words)
        if port == self._ports - 1:
            rooms = self._rooms
            m.d.sync += [
                self.injected_words.eq(sum(room.injected for room in rooms)),
                self.transit_words.eq(sum(room.transit for room in rooms)),
            ]

    def _ejection(self, m: Module, number: int, inputs: list[InputBuffer], asks: list, tails: list,
                  granted: list[list[Value]], space: "_EjectSpace") -> None:
        layout = taken_layout(self._parameters, number)
        key = ("eject", number)
        sources = [index for index in range(len(inputs)) if key in asks[index][number]]
        request = Cat(asks[index][number][key] for index in sources)
        m.submodules[f"eject_turn_{number}"] = turn = RoundRobin(len(sources))
        grant, takes = turn.grant, Signal(name=f"takes_{number}")
        m.d.comb += [turn.requests.eq(request), turn.taken.eq(1), takes.eq(request.any())]
        for bit, index in enumerate(sources):
            granted[index].append(grant[bit])
        tail = one_of(grant, [tails[index] for index in sources])
        read, read_tail = Signal(name=f"read_eject_{number}"), Signal(name=f"read_eject_tail_{number}")
        read_grant = Signal(len(sources), name=f"read_eject_grant_{number}")
        m.d.sync += [read.eq(takes), read_tail.eq(tail), read_grant.eq(grant)]

        m.submodules[f"queue_{number}"] = queue = FIFO(layout, EJECT_FLITS)
        eject = getattr(self, f"eject_{number}")
        stored = data.View(stored_layout(self._parameters),
                           one_of(read_grant, [inputs[index].o.as_value() for index in sources]))
        m.d.comb += [
            queue.i.valid.eq(read),
            *(queue.i.payload[name].eq(read_tail if name == "tail" else stored[name]) for name, _ in layout),
        ]
        wiring.connect(m, queue.o, wiring.flipped(eject))
        space.taken(takes, grant, sources, tail, eject.valid & eject.ready)

    @property
    def _rooms(self) -> list["_LinkRoom"]:
        return self.__dict__.setdefault("_room_list", [])


class _Holder:
    """Which input holds an output of a class, from a packet's first flit to its tail."""

    def __init__(self, m: Module, name: str):
        self._m = m
        self._held = Signal(name=f"held_{name}")
        self._name = name
        self._by: dict[int, Signal] = {}

    def has(self, index: int) -> Value:
        by = self._by.setdefault(index, Signal(name=f"held_{self._name}_by_{index}"))
        return self._held & by

    def may(self, index: int) -> Value:
        return ~self._held | self.has(index)

    def sent(self, sends: Value, grant: Value, sources: list[int], tail: Value) -> None:
        with self._m.If(sends):
            self._m.d.sync += self._held.eq(~tail)
            for bit, index in enumerate(sources):
                if index in self._by:
                    self._m.d.sync += self._by[index].eq(grant[bit])


class _LinkRoom:
    """Whether a flit may leave by a link: credits, rate, and who holds the class."""

    def __init__(self, m: Module, router: Router, port: int):
        self._m = m
        self._parameters = router.parameters
        self._link = getattr(router, f"link_out_{port}")
        self.injected: Any = 0
        self.transit: Any = 0
        router._rooms.append(self)
        depth = router.parameters.link_buffer_flits
        classes = router.parameters.classes
        self._credits = [Signal(range(depth + 1), init=depth, name=f"credits_{port}_{number}")
                         for number in range(classes)]
        self._holders = [_Holder(m, f"{port}_{number}") for number in range(classes)]
        # Tokens: numerator more a cycle, denominator less a flit; what is saved up stays below one flit
        # more than a flit.
        self._tokens = Signal(10, name=f"tokens_{port}")
        self._allowed = Signal(init=1, name=f"allowed_{port}")
        self._numerator, self._denominator = router.rate_numerator, router.rate_denominator

    def may(self, number: int, index: int, enters: bool) -> Value:
        credits, holder = self._credits[number], self._holders[number]
        return self._allowed & holder.may(index) & Mux(
            holder.has(index), credits.any(), credits >= self._needed(number, enters))

    def _needed(self, number: int, enters: bool) -> int:
        """Free places downstream that a packet of a class waits for: the bubble rule."""
        return (self._parameters.packet_flits if number else 1) * (1 + enters)

    def sent(self, sends: Value, classes: Value, grant: Value, sources: list[int], tail: Value) -> None:
        m = self._m
        for number, credits in enumerate(self._credits):
            leaves = sends & classes[number]
            m.d.sync += credits.eq(stepped(credits, self._link.credit[number], leaves))
            self._holders[number].sent(leaves, grant, sources, tail)
        full = self._numerator >= self._denominator
        more, after = Signal.like(self._tokens), Signal.like(self._tokens)
        with m.If(sends):
            m.d.comb += more.eq(self._numerator - self._denominator)
        with m.Elif(~self._allowed):
            m.d.comb += more.eq(self._numerator)
        m.d.comb += after.eq(self._tokens + more)
        m.d.sync += [
            self._tokens.eq(Mux(full, self._denominator, after)),
            self._allowed.eq(full | (after >= self._denominator)),
        ]


class _EjectSpace:
    """Whether a flit may go to a class's ejection queue."""

    def __init__(self, m: Module, router: Router, number: int):
        self._m = m
        self._space = Signal(range(EJECT_FLITS + 1), init=EJECT_FLITS, name=f"space_{number}")
        self._holder = _Holder(m, f"eject_{number}")

    def may(self, index: int) -> Value:
        return self._space.any() & self._holder.may(index)

    def taken(self, takes: Value, grant: Value, sources: list[int], tail: Value, freed: Value) -> None:
        self._m.d.sync += self._space.eq(stepped(self._space, freed, takes))
        self._holder.sent(takes, grant, sources, tail)
