"""What an input of the router asks for: one of its classes, and of that class the output."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.input_buffer import Head
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.arbiter import RoundRobin


class InputChoice(wiring.Component):
    """Of the classes of an input whose first flit may leave, class 0, or another in turn; all in the same cycle.

    Parameters
    ----------
    parameters : DieParameters
        The die.
    index : int
        The input: a link, or this die, which comes after all links. What is for this die comes from links only, and
        nothing leaves by the link by which it came.

    Members
    -------
    heads : In, array of :class:`~plinth_hw.comm.input_buffer.Head`
        What waits in each class.
    route : In, array of ``ports`` bits
        By class, the port by which a flit that is for another die leaves, as a bit.
    known : In(classes)
        ``route`` is that of the flit that waits; otherwise only where it is ``same``.
    blocked : In(1)
        Nothing may leave: the buffer is to be read for something else.
    may_eject, may_link_0 ... : In(classes)
        An output would take a flit of that class.
    chosen : Out(classes)
        The class: one-hot, or 0.
    idle : Out(1)
        It is 0: the buffer is free to be read for something else.
    asks_eject, asks_link_0 ... : Out(classes)
        The bit of that class, at the output that it asks for.
    loses : Out(1)
        No port leads to its destination: the flit is thrown away.
    tail : Out(1)
        The flit ends its packet.
    """

    def __init__(self, parameters: DieParameters, index: int):
        self.parameters = parameters
        self.index = index
        classes, links = parameters.classes, parameters.ports
        #: Links by which a flit of this input may leave.
        self.links = [port for port in range(links) if port != index]
        outputs = ["eject"] * (index < links) + [f"link_{port}" for port in self.links]
        super().__init__({
            "heads": In(data.ArrayLayout(Head, classes)),
            "route": In(data.ArrayLayout(unsigned(links), classes)), "known": In(classes), "blocked": In(1),
            **{f"may_{output}": In(classes) for output in outputs},
            "chosen": Out(classes), "idle": Out(1),
            **{f"asks_{output}": Out(classes) for output in outputs},
            "loses": Out(1), "tail": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        classes = self.parameters.classes
        possible, lost = Signal(classes, name="possible"), Signal(classes, name="lost")
        wants = {port: Signal(classes, name=f"wants_link_{port}") for port in self.links}
        own = Signal(classes, name="wants_eject")
        for number, head in enumerate(self.heads):
            onward = head.onward & (head.same | self.known[number])
            m.d.comb += [
                *(wants[port][number].eq(onward & self.route[number][port]
                                         & getattr(self, f"may_link_{port}")[number]) for port in self.links),
                lost[number].eq(onward & ~Cat(self.route[number][port] for port in self.links).any()),
            ]
            if self.index < self.parameters.ports:
                m.d.comb += own[number].eq(head.own & self.may_eject[number])
        m.submodules.turn = turn = RoundRobin(classes - 1)
        m.d.comb += [
            possible.eq(Cat(~self.blocked & Cat(want[number] for want in (*wants.values(), lost, own)).any()
                            for number in range(classes))),
            turn.requests.eq(possible[1:]), turn.taken.eq(~possible[0]), self.idle.eq(~possible.any()),
            self.chosen.eq(Mux(possible[0], 1, Cat(0, turn.grant))),
            *(getattr(self, f"asks_link_{port}").eq(self.chosen & want) for port, want in wants.items()),
            self.loses.eq((self.chosen & lost).any()),
            self.tail.eq((self.chosen & Cat(head.tail for head in self.heads)).any()),
        ]
        if self.index < self.parameters.ports:
            m.d.comb += self.asks_eject.eq(self.chosen & own)
        return m
