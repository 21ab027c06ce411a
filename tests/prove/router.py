"""Proofs of the router's flow control, :mod:`plinth_hw.comm.router_output`, :mod:`plinth_hw.comm.input_buffer`, and of
what it keeps of routes, :mod:`plinth_hw.comm.route_ahead`."""

from types import ModuleType
from typing import Any

from amaranth.hdl import Array, Cat, Mux, Signal, Value
from tests.prove.harness import Harness, one_hot
from tests.prove.proof import Proof, Twin

from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import preset
from plinth_hw.lib.count import following


def link_output(harness: Harness, code: ModuleType) -> None:
    """A link of a die with two, that drops nothing, beside a buffer downstream that frees what it has got; of one
    class, whichever."""
    m = harness.m
    parameters = preset("ndp-tiny", address_bits=14, chunk_words=4, engines=frozenset({Engine.COLLECTIVE}))
    output = code.LinkOutput(parameters, 0)
    state = harness.block(output)
    classes, sources = range(parameters.classes), range(len(output.sources))
    which = harness.fixed(classes, "which")
    harness.assume((which < len(classes)) & ~output.drops)

    def of_class(values: Any) -> Value:
        return Array(list(values))[which]

    # Each source asks for one class at most, of those that it may ask for.
    for source in sources:
        asks, may = (Cat(bits[number][source] for number in classes) for bits in (output.asks, output.may))
        harness.assume(((asks & ~may) == 0) & ((asks == 0) | (one_hot(asks) & (output.chosen[source] == asks))))
    asked = Cat(Cat(output.asks[number][source] for number in classes).any() for source in sources)
    sent = Signal()
    m.d.comb += sent.eq((of_class(output.asks) & output.grant).any())
    tail = (output.grant & output.tails).any()

    # Places downstream that are taken, or will be; those taken by what was on the link.
    places, length = parameters.link_buffer_flits, parameters.packet_flits
    promised, there = Signal(range(2 * places)), Signal(range(2 * places))
    credit = output.link.credit.bit_select(which, 1)
    harness.assume(~credit | (there != 0))
    arrives = output.link.valid & (output.link.flit.traffic_class == which)
    m.d.sync += [promised.eq(promised + sent - credit), there.eq(there + arrives - credit)]
    free = places - promised
    inside, owner = Signal(), Signal(len(sources))
    with m.If(sent):
        m.d.sync += [inside.eq(~tail), owner.eq(output.grant)]
    two = Mux(which == 0, 2, 2 * length)
    room = Mux(output.grant[0], two >> 1, two)  # source 0 comes by the other link: straight on

    harness.claim("a flit leaves only for a free place", ~sent | (promised < places))
    harness.claim("no more flits are downstream than there are places", there <= places)
    harness.claim("a packet begins only where two have room, or one that goes straight on",
                  ~sent | inside | (free.as_signed() >= room))
    harness.claim("no other source's flits are inside a packet", ~(sent & inside) | (output.grant == owner))
    harness.claim("one leaves, which asks, whenever one asks",
                  Mux(asked.any(), one_hot(output.grant) & (output.grant & asked).any(), output.grant == 0))
    allowed = state["allowed"]
    harness.claim("no credit is lost: who may ask waits for room, rate and wires alone", Cat(
        of_class(output.may)[source] == (allowed & Mux(inside, owner[source] & (free != 0), free.as_signed() >= (
            two >> 1 if source == 0 else two))) for source in sources).all())
    on_link = harness.past(sent)
    harness.claim("a flit is on the link two cycles after its grant", arrives == harness.past(on_link))

    blocks = [getattr(state["m"].submodules, f"hold_{number}") for number in classes]
    has = of_class(block.has for block in blocks)
    harness.invariant((has == Mux(inside, owner, 0)) & (~inside | one_hot(owner)))
    harness.invariant((state["read"] & (state["read_class"] == which)) == on_link)
    harness.invariant(promised == there + on_link + arrives)
    harness.invariant(one_hot(state["turn"].last))
    harness.invariant(of_class(state["signals"][f"credits_{number}"] for number in classes) == free)
    for number in classes:
        for room in {1, *output._rooms(number)}:
            has_room = state["signals"][f"has_{room}_{number}"]
            harness.invariant((which != number) | (has_room == (free.as_signed() >= room)))
    harness.invariant(promised <= places)


def input_buffer(harness: Harness, code: ModuleType) -> None:
    """Four places a class, beside a sender that keeps to its credits; of one class, whichever."""
    m, depth = harness.m, 4
    parameters = preset("ndp-tiny", address_bits=14)
    buffer = code.InputBuffer(parameters, depth)
    state = harness.block(buffer, peeked=("marks",) * (depth - 1) + ("destinations",))
    which = harness.fixed(range(parameters.classes), "which")
    flit = buffer.link.flit
    harness.assume((which < parameters.classes) & (flit.traffic_class < parameters.classes))
    credits, held = Signal(range(2 * depth), init=depth), Signal(range(2 * depth))
    arrives = buffer.link.valid & (flit.traffic_class == which)
    pops = buffer.pop & buffer.select.bit_select(which, 1)
    credit = buffer.link.credit.bit_select(which, 1)
    harness.assume(~arrives | (credits != 0))
    harness.assume((buffer.select == 0) | one_hot(buffer.select))
    head = Array(buffer.head)[which]
    present = head.onward | head.own
    harness.assume(~pops | present)
    m.d.sync += [credits.eq(credits - arrives + credit), held.eq(held + arrives - pops)]
    # Where the last flit went that did not end here, if the table has not changed since.
    own = (flit.destination == buffer.die) | state["is_error"]
    destination, known = Signal(parameters.die_bits), Signal()
    with m.If(arrives & ~own):
        m.d.sync += [destination.eq(flit.destination), known.eq(1)]
    with m.If(buffer.forget):
        m.d.sync += known.eq(0)
    # What the flits that are held say of themselves, the oldest first.
    arriving = Cat(own, flit.tail, known & (flit.destination == destination))
    waiting = [Signal(3, name=f"waiting_{place}") for place in range(depth + 1)]
    for place, kept in enumerate(waiting[:depth]):
        here = Mux(arrives & (held == place), arriving, kept)
        beyond = Mux(arrives & (held == place + 1), arriving, waiting[place + 1])
        m.d.sync += kept.eq(Mux(pops, beyond, here))

    harness.claim("what is held has a place", held <= depth)
    harness.claim("a class has a head exactly while it holds a flit", present == (held != 0))
    harness.claim("a credit goes back for each flit that goes, and for no other", credit == harness.past(pops))
    # Classes have the same logic; what memory holds is looked at of the last one.
    last = which == parameters.classes - 1
    harness.claim("the head tells of the flit that waits first", ~last | (held == 0) | (
        (head.own == waiting[0][0]) & (head.onward == ~waiting[0][0]) & (head.tail == waiting[0][1])))
    harness.claim("it is the same as the last one exactly if that went there, and the table has not changed since",
                  ~last | (held == 0) | (head.same == waiting[0][2]))
    (last_destination,) = state["destinations_peek"]
    m.d.comb += last_destination.addr.eq(which)
    harness.invariant(~last | (state["last_known"].bit_select(which, 1) == known))
    harness.invariant(~known | (last_destination.data == destination))
    place, filled = state["taken"][which], state["filled"][which]
    harness.invariant(~(head.onward & head.own))
    behind = following(place)
    for count, peek in enumerate(state["marks_peek"], 1):
        m.d.comb += peek.addr.eq(behind)
        # `same`, the tail, and whether it ends here: the other way round.
        harness.invariant(~last | (held <= count) | (Cat(peek.data[::-1]) == waiting[count]))
        behind = following(behind)
    for count in range(depth + 1):
        harness.invariant((held != count) | (filled == place))
        place = following(place)
    harness.invariant(credits + held + credit == depth)


def route_ahead(harness: Harness, code: ModuleType) -> None:
    """Four places a class, behind a buffer that keeps to its promises; of the last class, with one table."""
    m, depth = harness.m, 4
    parameters = preset("ndp-tiny-winograd", address_bits=14)
    ahead = code.RouteAhead(parameters, depth)
    state = harness.block(ahead, peeked=("kept",) * (depth - 1) + ("routes",))
    number = parameters.classes - 1
    held, taken = Signal(range(depth + 1)), Signal.like(ahead.place)
    arrives = ahead.valid & (ahead.flit.traffic_class == number)
    leaves, sent, same = (bits[number] for bits in (ahead.leaves, ahead.sent, ahead.same))
    route, known = ahead.route[number], ahead.known[number]
    # The port of a flit that comes, by the table as it is then.
    (table,) = state["routes_peek"]
    m.d.comb += table.addr.eq(ahead.flit.destination)
    looked_up = Mux(ahead.route_write.clears, 0, table.data)
    names = Cat(ahead.flit.message[:1] == port for port in range(parameters.ports))
    port, last = Mux(ahead.is_error, names, looked_up), Signal(parameters.ports)
    waiting = [Signal(parameters.ports, name=f"waiting_{place}") for place in range(depth + 1)]
    for place, kept in enumerate(waiting[:depth]):
        here = Mux(arrives & (held == place), port, kept)
        beyond = Mux(arrives & (held == place + 1), port, waiting[place + 1])
        m.d.sync += kept.eq(Mux(leaves, beyond, here))
    m.d.sync += held.eq(held + arrives - leaves)
    with m.If(leaves):
        m.d.sync += taken.eq(following(taken))
    with m.If(sent):
        m.d.sync += last.eq(waiting[0])
    harness.assume(~arrives | (held != depth))
    harness.assume(~leaves | (held != 0))
    harness.assume(~sent | (leaves & (known | same)))
    harness.assume(~same | (held == 0) | (waiting[0] == last))
    filled = taken
    for count in range(depth + 1):
        harness.assume((held != count) | ~arrives | (ahead.place == filled))
        filled = following(filled)
    harness.assume(ahead.taken[number] == taken)
    fresh = arrives & (held == leaves)
    harness.assume(ahead.fresh[number] == fresh)

    harness.claim("the route of what waits first is that of the table as it came, or the one it names",
                  (held == 0) | ~(known | same) | (route == waiting[0]))
    harness.claim("it is known in the second cycle", harness.first | (known == ~harness.past(fresh)))
    # What came in the cycle before is where its port is written in this one.
    signals, came = state["signals"], harness.past(arrives)
    new = state["looked_up"][0]
    harness.invariant(state["came"][number] == came)
    harness.invariant((held <= depth) & (~came | (held != 0)))
    harness.invariant(signals[f"last_{number}"] == last)
    place = taken
    for count, kept in enumerate(waiting[:depth]):
        youngest = came & (held == count + 1)
        harness.invariant(~youngest | ((signals["came_to"] == place) & (new == kept)))
        if count:
            peek = state["kept_peek"][count - 1]
            m.d.comb += peek.addr.eq(place)
            harness.invariant((held <= count) | youngest | (peek.data == kept))
        else:
            harness.invariant((held == 0) | youngest | (signals[f"first_{number}"] == kept))
        place = following(place)


PROOFS = (
    Proof("link-output", "plinth_hw.comm.router_output", link_output, 2, (
        Twin("a flit leaves only for a free place", "Mux(hold.has[source], has_room[1], has_room[room])",
             "hold.has[source] | has_room[room]", 24),
        Twin("no more flits are downstream than there are places", "link_buffer_flits, self.link.credit[number]",
             "link_buffer_flits, self.link.credit.any()", 30),
        Twin("a packet begins only where two have room, or one that goes straight on", ", has_room[room])",
             ", has_room[1])"),
        Twin("no other source's flits are inside a packet", "self.may.eq(Cat(~held.any() for held in others))",
             "self.may.eq(~0)"),
        Twin("one leaves, which asks, whenever one asks", "Mux(self.asks[0].any(), self.asks[0], request)",
             "Mux(request.all(), self.asks[0], request)"),
        Twin("no credit is lost: who may ask waits for room, rate and wires alone",
             "link_buffer_flits, self.link.credit[number]", "link_buffer_flits, self.link.credit[number] & 0"),
        Twin("a flit is on the link two cycles after its grant", "self.link.valid.eq(read)",
             "self.link.valid.eq(read & ~sends)"),
    )),
    Proof("input-buffer", "plinth_hw.comm.input_buffer", input_buffer, 2, (
        Twin("what is held has a place", "self.link.credit[number].eq(leaves[number])",
             "self.link.credit[number].eq(arrives[number])"),
        Twin("a class has a head exactly while it holds a flit", "(leaves[number], ~alone[number], follows.data)",
             "(leaves[number], 1, follows.data)"),
        Twin("a credit goes back for each flit that goes, and for no other",
             "self.link.credit[number].eq(leaves[number])",
             "self.link.credit[number].eq(self.read & self.select[number])"),
        Twin("the head tells of the flit that waits first", "Mux(leaves[number], alone[number], ~(onward | own))",
             "Mux(leaves[number], alone[number], ~own)"),
        Twin("it is the same as the last one exactly if that went there, and the table has not changed since",
             "destination.en.eq(self.link.valid & ~ends_here)", "destination.en.eq(self.link.valid)"),
    )),
    Proof("route-ahead", "plinth_hw.comm.route_ahead", route_ahead, 2, (
        Twin("the route of what waits first is that of the table as it came, or the one it names",
             "Mux(came[number] & (place == second), port, follows.data)", "follows.data"),
        Twin("it is known in the second cycle", "known.eq(~self.fresh[number])", "known.eq(1)"),
    )),
)
