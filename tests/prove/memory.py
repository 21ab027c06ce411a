"""Proofs of :mod:`plinth_hw.memory`."""

from types import ModuleType
from typing import Any

from amaranth.hdl import Array, Cat, Const, Mux, Signal, Value
from tests.prove.axi4 import Lengths, Writes, read_port, write_port
from tests.prove.harness import Harness
from tests.prove.proof import Proof, Twin

from plinth_hw.isa.parameters import preset

_AXI = "plinth_hw.memory.axi"


def _left(state: dict[str, Any]) -> Value:
    """Beats of a split's request whose burst has not been taken by all."""
    return Mux(state["busy"], state["more"] + 1, 0)


def page_split(harness: Harness, code: ModuleType) -> None:
    """Two ports of 16 bytes: 256 beats a page."""
    m, split = harness.m, code._PageSplit(preset("ndp-demo", address_bits=20), 2)
    state = harness.block(split)
    address, sent, offered = (state[name] for name in ("address", "sent", "offered"))
    request = split.i.payload
    harness.assume(harness.stable(split.i))
    harness.assume(~split.i.valid | ((request.beats > 0) & (request.beats <= 64)))
    harness.assume(request.address <= (1 << len(request.address)) - 64)
    takes = split.i.valid & split.i.ready
    # What of the request has not been offered to all.
    rest, place, busy = Signal(7), Signal.like(request.address), Signal()
    done = Signal()
    taken = [Signal(name=f"taken_{port}") for port in range(2)]
    for port, flag in enumerate(taken):
        m.d.sync += flag.eq(Mux(done, 0, flag | (split.valid[port] & split.ready[port])))
    m.d.comb += done.eq(Cat(flag | (split.valid[port] & split.ready[port]) for port, flag in enumerate(taken)).all())
    with m.If(done):
        m.d.sync += [rest.eq(rest - split.length - 1), place.eq(place + split.length + 1), busy.eq(~split.last)]
    with m.If(takes):
        m.d.sync += [rest.eq(request.beats), place.eq(request.address), busy.eq(1)]
    offers = split.valid.any()
    harness.invariant((_left(state) == rest) & (busy == (rest != 0)) & (~busy | (address == place)))
    harness.invariant(Cat(taken) == sent)
    harness.invariant(~sent.all())
    harness.invariant(busy | (~sent.any() & ~offered))
    harness.invariant(~sent.any() | offered)
    harness.invariant(rest <= 64)
    harness.invariant(address <= (1 << len(address)) - Mux(busy, rest, 1))

    harness.claim("a burst begins where the one before ended", ~offers | (busy & (split.address == place)))
    harness.claim("a burst has the request's beats up to the page's end",
                  ~offers | (split.length + 1 == Mux((place[:8] + rest) > 256, 256 - place[:8], rest)))
    harness.claim("the last burst of a request is known", ~offers | (split.last == (split.length + 1 == rest)))
    harness.claim("no port is offered a burst twice", ~(split.valid & Cat(taken)).any())
    harness.claim("an offer stands until it is taken", Cat(
        ~harness.past(split.valid[port] & ~split.ready[port]) | split.valid[port] for port in range(2)).all())
    harness.claim("offers wait for no READY", ~(busy & split.permit) | ((split.valid | Cat(taken)) == Const(3, 2)))
    harness.claim("a request is taken once the last burst is", ~takes | ~busy | (done & split.last))
    # Announced once, with the first offer.
    announced = Signal()
    m.d.sync += announced.eq((announced | split.offer) & ~done)
    harness.invariant(announced == offered)
    harness.claim("a burst is announced when it is first offered",
                  (split.offer == (offers & ~announced)) & (~split.offer | split.permit))


def adaptor(harness: Harness, code: ModuleType) -> None:
    """Two ports of two words; up to two write bursts under way."""
    parameters = preset("ndp-tiny", axi_ports=2, address_bits=14)
    axi = code.AXIAdaptor(parameters, outstanding=2)
    state = harness.block(axi)
    m, ports = harness.m, (axi.axi_0, axi.axi_1)
    for port in ports:
        read_port(harness, port, 2)
    writes = [write_port(harness, port, 3) for port in ports]
    read, write = axi.read, axi.write
    for request in (read.request, write.request):
        harness.assume(harness.stable(request))
        harness.assume((request.payload.beats > 0) & (request.payload.beats <= 3))
    harness.assume(harness.stable(write.data))

    # Reads. A slave that keeps the rules gives nothing while nothing is awaited.
    harness.assume(~axi.read_idle | ~Cat(port.rvalid for port in ports).any())
    step = ports[0].rvalid & ports[0].rready
    harness.claim("r: beats of all ports are taken together", Cat(port.rvalid & port.rready for port in ports)
                  == step.replicate(2))
    harness.claim("r: a beat that is taken is given, whole", (step == (read.data.valid & read.data.ready)) & (
        ~step | (read.data.payload.as_value() == Cat(port.rdata for port in ports))))
    harness.claim("r: a beat that is given stands until it is taken", harness.stable(read.data))

    # Writes: beats offered on AW of port 0, and not given by the client.
    asked, sent = write.request.valid & write.request.ready, write.data.valid & write.data.ready
    answered = ports[0].bvalid & ports[0].bready
    new = ports[0].awvalid & ~harness.past(ports[0].awvalid & ~ports[0].awready)
    owed = Signal(8)
    m.d.sync += owed.eq(owed + Mux(new, ports[0].awlen + 1, 0) - sent)
    harness.claim("w: a beat is taken for a burst that was offered", ~sent | (owed > 0))
    words, payload = 2, write.data.payload
    strobed = payload.data.as_value() & Cat(bit.replicate(32) for bit in payload.strobe)
    harness.claim("w: data and strobes are those of the beat, a word's strobe for each byte, 0 without one", Cat(
        ~harness.past(sent) | (port.wvalid & (Cat(port.wdata, port.wstrb) == harness.past(Cat(
            strobed.word_select(number, 32 * words),
            *(bit.replicate(4) for bit in payload.strobe.word_select(number, words))))))
        for number, port in enumerate(ports)).all())
    stalled = Cat(port.wvalid & ~port.wready for port in ports).any()
    harness.claim("w: data wait for no READY of their address", ~((owed > 0) & write.data.valid & ~stalled) | sent)

    _beats_in_order(harness, state, writes, owed)

    # Responses.
    requests = Lengths(harness, asked, write.request.payload.beats, write.response, 3, "requests")
    bursts = Lengths(harness, new, ports[0].awlen, answered, 3, "bursts")
    beats = Signal(8)
    all_beats = beats + bursts.oldest + 1
    m.d.sync += beats.eq(Mux(write.response, 0, Mux(answered, all_beats, beats)))
    harness.claim("b: responses of all ports are taken together", Cat(port.bvalid & port.bready for port in ports)
                  == answered.replicate(2))
    harness.claim("b: a request is answered once all its bursts are",
                  write.response == (answered & (requests.count > 0) & (all_beats == requests.oldest)))
    _answers_in_order(harness, state, requests, bursts, beats)
    harness.claim("an answer that is an error is told with it", (
        axi.read_error == (read.data.valid & Cat((port.rresp[1], port.rid) for port in ports).any()))
        & (axi.read_not_last == ~Cat(port.rlast for port in ports).all())
        & (axi.write_error == (answered & Cat((port.bresp[1], port.bid) for port in ports).any())))


def _beats_in_order(harness: Harness, state: dict[str, Any], writes: list[Writes], owed: Value) -> None:
    """Invariants of AW and W: what the adaptor's queues hold is what its ports have been offered and not given."""
    lengths, lasts, taken, held_last = (state[name] for name in ("lengths", "lasts", "taken", "held_last"))
    split = state["inside"](state["split"])
    for way in ("ar_split", "aw_split"):
        inside = state["inside"](getattr(state["m"].submodules, way))
        harness.invariant((_left(inside) <= 3) & ~inside["sent"].all())
        harness.invariant(inside["offered"] | ~inside["sent"].any())
        harness.invariant(inside["busy"] | ~inside["offered"])
    for number, port in enumerate(writes):
        pending, offered = state["pending"][number], port.offered
        last = pending & held_last
        harness.invariant(~pending | Mux(held_last, taken == 0, (taken != 0) & (lengths.count != 0)))
        harness.invariant(offered.count == lengths.count + last)
        harness.invariant(port.beat == Mux(last, offered.oldest, taken - pending))
        for place, length in enumerate(lengths.places):
            harness.invariant((lengths.count <= place) | (
                (Mux(last, offered.lengths[place + 1], offered.lengths[place]) == length) & (length <= 2)))
        harness.invariant(port.addresses + (split["offered"] & ~split["sent"][number]) == lasts.count)
        harness.invariant(port.ends + offered.count == lasts.count)
    harness.invariant(Mux(lengths.count == 0, taken == 0, taken <= lengths.places[0]))
    harness.invariant(owed + taken == sum(Mux(lengths.count > place, length + 1, 0)
                                          for place, length in enumerate(lengths.places)))


def _answers_in_order(harness: Harness, state: dict[str, Any], requests: Lengths, bursts: Lengths,
                      beats: Value) -> None:
    """Invariants of B: bursts that wait for their answer, and what is not offered yet, make up the requests."""
    lasts, split = state["lasts"], state["split"]
    inside = state["inside"](split)
    harness.invariant(bursts.count == lasts.count)
    asked, number = Array(requests.lengths), Const(0, 2)
    for place, last in enumerate(lasts.places):
        there, total = lasts.count > place, beats + bursts.lengths[place] + 1
        harness.invariant(~there | ((number < requests.count) & Mux(last, total == asked[number],
                                                                    total < asked[number])))
        beats, number = Mux(there, Mux(last, 0, total), beats), (number + (there & last))[:2]
    rest = _left(inside) - Mux(inside["offered"], split.length + 1, 0)
    harness.invariant(requests.count == number + (rest != 0))
    harness.invariant(Mux(rest == 0, beats == 0, beats + rest == asked[number]))


PROOFS = (
    Proof("page-split", _AXI, page_split, 2, (
        Twin("a burst begins where the one before ended", "load, request.address[page_bits:],",
             "load, request.address[:page_bits],"),
        Twin("a burst has the request's beats up to the page's end", "Mux(self.last, more, ~address",
             "Mux(self.last, more, address"),
        Twin("the last burst of a request is known", "~end[page_bits:].any()", "~end[page_bits - 1:].any()"),
        Twin("no port is offered a burst twice", "self.valid.eq(Mux(offers, ~sent, 0))",
             "self.valid.eq(Mux(offers, ~0, 0))"),
        Twin("an offer stands until it is taken", "(self.permit | offered)", "self.permit"),
        Twin("offers wait for no READY", "self.valid.eq(Mux(offers, ~sent, 0))",
             "self.valid.eq(Mux(offers & self.ready.any(), ~sent, 0))"),
        Twin("a request is taken once the last burst is", "self.i.ready.eq(~busy | (step & self.last))",
             "self.i.ready.eq(~busy | step)"),
        Twin("a burst is announced when it is first offered", "self.offer.eq(offers & ~offered)",
             "self.offer.eq(step)"),
    )),
    Proof("axi4-master", _AXI, adaptor, 2, (
        *(twin for channel in ("ar", "aw") for twin in (
            Twin(f"{channel}: an offer stands until it is taken", "sent.eq(sent | (self.valid & self.ready))",
                 "sent.eq(sent | self.valid)"),
            Twin(f"{channel}: a burst stays within 4 KB", "end.eq(address[:page_bits] + more)", "end.eq(more)"),
            Twin(f"{channel}: bursts are INCR, of full width, aligned", "BURST_INCR = 1", "BURST_INCR = 2"),
            Twin(f"{channel}: a burst has at most 64 beats", '{channel}len").eq(split.length)',
                 '{channel}len").eq(split.length + 64)'))),
        Twin("w: data and strobes are those of the beat, a word's strobe for each byte, 0 without one",
             "held.strobe.word_select(index, words)", "held.strobe.word_select(0, words)"),
        Twin("w: data and strobes are those of the beat, a word's strobe for each byte, 0 without one",
             "bit.replicate(word_bits)", "(bit | 1).replicate(word_bits)"),
        Twin("w: an offer stands until it is taken",
             "m.d.sync += pending.eq(pending & ~Cat(port.wready for port in ports))", "m.d.sync += pending.eq(0)"),
        Twin("w: data follow the offer of their address", "lengths.o.valid & ~(pending", "~(pending"),
        Twin("w: WLAST is the last beat of the burst's", "last.eq(taken == lengths.o.payload)",
             "last.eq(taken + 1 == lengths.o.payload)"),
        Twin("w: a beat is taken for a burst that was offered", "lengths.o.valid & ~(pending", "~(pending"),
        Twin("w: data wait for no READY of their address", "self.offer.eq(offers & ~offered)", "self.offer.eq(step)"),
        Twin("r: beats of all ports are taken together", "offered.all()", "offered.any()"),
        Twin("r: a beat that is taken is given, whole", "Cat(port.rdata for port in ports)",
             "Cat(port.rdata for port in reversed(ports))"),
        Twin("r: a beat that is given stands until it is taken",
             "port.rready.eq(step | self.read_idle)", "port.rready.eq(1)"),
        Twin("b: responses of all ports are taken together", "given.all()", "given.any()"),
        Twin("b: a request is answered once all its bursts are", "self.write.response.eq(answered & lasts.o.payload)",
             "self.write.response.eq(answered)"),
        *(Twin("an answer that is an error is told with it", before, after) for before, after in (
            ("port.rresp[1]", "port.rresp[0]"), ("(port.rresp[1], port.rid)", "(port.rresp[1],)"),
            ("(port.bresp[1], port.bid)", "(port.bresp[1],)"),
            ("~Cat(port.rlast for port in ports).all()", "~ports[0].rlast"))),
    ), queues=True),
)
