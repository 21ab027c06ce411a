"""Proofs of the link layer's parts, two ends each, over wires that lose, damage and repeat what is on them.

Checks are abstract: a frame that is known to be wrong says anything; one that is not says what was sent. Wires are a
few cycles long; invariants speak of any two frames on their way and so do not depend on how many there are.
"""

import sys
from itertools import pairwise
from types import ModuleType, SimpleNamespace
from typing import Any

from amaranth.hdl import Array, Const, Mux, Signal, Value, unsigned
from amaranth.lib import data
from tests.prove.harness import Harness
from tests.prove.proof import Proof, Twin, changed

from plinth_hw.comm import link_frame, link_receive, link_transmit
from plinth_hw.comm.link_frame import FrameKind
from plinth_hw.isa.parameters import preset
from plinth_hw.lib.count import count_bits, count_of

#: Cycles of the wires.
_LENGTH = 2
_WINDOW = 4
_SEQUENCE_BITS = _WINDOW.bit_length()
#: Bits of numbers that do not run over between what is compared.
_WIDE = _SEQUENCE_BITS + 2

_ORDER = "flits come out in their order, none lost, repeated or changed"
_NOTHING = "nothing comes out that did not go in"
_PLACES = "flits are taken while fewer than the window are not known to have come"
_ROOM = "flits are taken in the cycles for which there was room"
_HONEST = "the link does not fail by what an end says that errs not"


def _small(code: ModuleType, window: int = _WINDOW) -> Any:
    """A part of the link layer with a small window and flits of two bits."""
    small = changed(link_frame, ((f"WINDOW = {link_frame.WINDOW}\n", f"WINDOW = {window}\n"),))
    small.__dict__["flit_layout"] = lambda _: data.StructLayout({"data": unsigned(2)})
    # A twin is a module of its own already.
    part = changed(code, ()) if sys.modules.get(code.__name__) is code else code
    vars(part).update({name: value for name, value in vars(small).items() if name in vars(part) and name[0] != "_"})
    return part


def _within(before: Value, after: Value, most: int) -> Value:
    """Whether a number is the same as, or up to so many after, another one."""
    return (after - before)[:_WIDE] <= most


class _Wires:
    """What was sent in the last cycles, the oldest first; that one may come, or again the one before it."""

    def __init__(self, harness: Harness, name: str, sent: dict[str, Value]):
        self.ways: list[dict[str, Value]] = [sent]
        for place in range(_LENGTH):
            later = {part: Signal(Value.cast(value).shape(), name=f"{name}_{part}_{place}")
                     for part, value in self.ways[0].items()}
            harness.m.d.sync += [later[part].eq(value) for part, value in self.ways[0].items()]
            self.ways.insert(0, later)
        repeats = harness.free(1, f"{name}_repeats")
        last = {part: Signal.like(value, name=f"{name}_{part}_last") for part, value in self.ways[0].items()}
        self.comes = {part: Mux(repeats, last[part], value) for part, value in self.ways[0].items()}
        harness.m.d.sync += [last[part].eq(value) for part, value in self.comes.items()]
        self.ways.insert(0, last)


def replay(harness: Harness, code: ModuleType) -> None:
    """Flits from one end to the other, and what that says it expects."""
    m, parameters = harness.m, preset("ndp-tiny")
    parts = [_small(code if code.__name__ == part.__name__ else part) for part in (link_transmit, link_receive)]
    transmit, receive = parts[0].LinkTransmit(parameters, 4), parts[1].LinkReceive(parameters)
    inside = harness.block(transmit, peeked=("flits",))
    harness.block(receive, name="receive")
    harness.assume(harness.stable(transmit.i))
    harness.assume(~transmit.clear & ~receive.clear & receive.up)
    put, body = transmit.i.valid & transmit.i.ready, receive.frame.body

    # All numbers, with bits enough: flits put in, known to have come, to be sent, sent ever, delivered, expected.
    written, acked, upcoming, newest, delivered = (
        Signal(_WIDE, name=f"number_{name}") for name in ("written", "acked", "upcoming", "newest", "delivered"))
    expected, held = Signal(_WIDE), Signal(_WIDE)
    back = inside["asked"] | inside["late"] | inside["overtaken"]
    m.d.comb += [expected.eq(delivered + receive.o.valid), held.eq(written - delivered)]
    m.d.sync += [written.eq(written + put), delivered.eq(expected),
                 upcoming.eq(Mux(back, acked, upcoming + inside["get"]))]
    with m.If(inside["get"] & (newest == upcoming)):
        m.d.sync += newest.eq(newest + 1)
    offered = Signal(_WIDE)
    with m.If(transmit.take):
        m.d.sync += offered.eq(upcoming)

    # Frames: flits go one way, in any other good frame nothing of them is said; counts of requests are anything.
    flits = _Wires(harness, "flit", {"valid": transmit.take & transmit.o.valid, "number": offered,
                                     "sequence": transmit.o.sequence, "flit": transmit.o.flit.as_value()})
    come = flits.comes
    harness.assume(~(receive.frame.valid & receive.frame.good & (Value.cast(body.kind) == FrameKind.FLIT.value)) | (
        come["valid"] & (body.sequence == come["sequence"]) & (body.flit.as_value() == come["flit"])))
    tellings = _Wires(harness, "telling", {"number": expected, "expected": receive.expected})
    harness.assume(~transmit.heard.valid | (transmit.heard.expected == tellings.comes["expected"]))
    with m.If(transmit.heard.valid):
        m.d.sync += acked.eq(tellings.comes["number"])

    # Some flit, any of them.
    pick, watched = harness.free(1, "pick"), Signal()
    before, payload = Signal(_WIDE), Signal.like(transmit.i.payload.as_value())
    with m.If(put & pick & ~watched):
        m.d.sync += [watched.eq(1), before.eq(held - receive.o.valid), payload.eq(transmit.i.payload.as_value())]
    with m.Elif(watched & receive.o.valid):
        m.d.sync += [before.eq(before - 1), watched.eq(before != 0)]
    number, waits = Signal(_WIDE), Signal()
    m.d.comb += [number.eq(delivered + before), waits.eq(watched & ~(receive.o.valid & (before == 0))),
                 inside["flits_peek"][0].addr.eq(number[:_SEQUENCE_BITS - 1])]

    for register, wide in ((inside["written"], written), (inside["acked"], acked), (inside["upcoming"], upcoming),
                           *((way["expected"], way["number"]) for way in tellings.ways),
                           *((way["sequence"], way["number"]) for way in flits.ways)):
        harness.invariant(register == wide[:_SEQUENCE_BITS])
    said = [acked, *(way["number"] for way in tellings.ways), newest, written]
    for earlier, later in pairwise(said):
        harness.invariant(_within(earlier, later, _WINDOW))
    harness.invariant(_within(acked, written, _WINDOW))
    harness.invariant(_within(upcoming, newest, _WINDOW))
    frames = [*flits.ways[:-1], {"valid": transmit.o.valid, "number": offered, "flit": transmit.o.flit.as_value()}]
    for place, frame in enumerate(frames):
        harness.invariant(~frame["valid"] | (
            _within(expected - _WINDOW, frame["number"], 2 * _WINDOW - 1)
            & _within(frame["number"] + 1, newest, 2 * _WINDOW - 1)))
        harness.invariant(~(frame["valid"] & waits & (frame["number"] == number)) | (frame["flit"] == payload))
        for older in frames[:place]:
            harness.invariant(~(frame["valid"] & older["valid"])
                              | _within(older["number"] + 1 - _WINDOW, frame["number"], 3 * _WINDOW))
    harness.invariant(~watched | (before < held))
    harness.invariant(~waits | (inside["flits_peek"][0].data.as_value() == payload))
    harness.invariant(held <= _WINDOW + 1)

    harness.claim(_ORDER, ~(receive.o.valid & watched & (before == 0)) | (receive.o.flit.as_value() == payload))
    harness.claim(_NOTHING, ~receive.o.valid | (held != 0))
    harness.claim(_HONEST, ~transmit.failed | transmit.replays)
    if hasattr(code, "MOST_REPLAYS"):
        harness.claim(_PLACES, transmit.i.ready == ((written - acked)[:_WIDE] < _WINDOW))


def room(harness: Harness, code: ModuleType) -> None:
    """The sender by itself, with a window of 16."""
    window = 16
    lead, part = window // 8 - 1, _small(code, window)
    transmit = part.LinkTransmit(preset("ndp-tiny"), 4)
    state = harness.block(transmit)
    kept = (state["written"] - state["acked"])[:window.bit_length()]
    harness.assume(~transmit.clear)
    harness.assume(~transmit.heard.valid | ((transmit.heard.expected - state["acked"])[:window.bit_length()] <= kept))
    harness.invariant(kept <= window)
    rooms = [transmit.room]
    for _ in range(lead):
        rooms.append(harness.past(rooms[-1]))
    for cycles, there_was in enumerate(rooms):
        harness.invariant(~there_was | (kept <= window - 1 - lead + cycles))
        harness.claim(_ROOM, ~there_was | transmit.i.ready)


_GIVEN = "no more credits are given than places were freed"
_NONE_LOST = "none is lost: nothing is under way once as many are given as were freed"
_EACH_CYCLE = "a credit is given in each cycle until as many are given as are known"


def credits(harness: Harness, code: ModuleType) -> None:
    """One end tells, another hears, of two classes of four places each, in counts of seven values."""
    m, places, classes = harness.m, 4, 2
    parameters: Any = SimpleNamespace(classes=classes, link_buffer_flits=places)
    bits = count_bits(places)
    period = (1 << bits) - 1
    tells, hears = code.LinkCredits(parameters), code.LinkCredits(parameters)
    telling = harness.block(tells)
    hearing = harness.block(hears, name="hears")
    harness.assume(~tells.clear & ~hears.clear)
    counts = Array(Const(count_of(number, bits), bits) for number in range(period))

    def after(number: Value, steps: Value) -> Value:
        return Mux(number + steps >= period, number + steps - period, number + steps)[:bits]

    def apart(before: Value, number: Value) -> Value:
        return Mux(number >= before, number - before, number + period - before)[:bits]

    # Of each count how many steps from the first it is, modulo all; what is freed and not credited is less than that.
    freed, credited, known = ([Signal(bits, name=f"number_{name}_{index}") for index in range(classes)]
                              for name in ("freed", "credited", "known"))
    wires = _Wires(harness, "telling", {
        "class": tells.told_class, "count": tells.told,
        **{f"number_{index}": freed[index] for index in range(classes)}})
    come = wires.comes
    harness.assume(~hears.heard | ((hears.heard_class == come["class"]) & (hears.heard_count == come["count"])))
    harness.invariant(tells.told_class < classes)
    for index in range(classes):
        under_way = Signal(bits, name=f"under_way_{index}")
        m.d.sync += [under_way.eq(under_way + tells.freed[index] - hears.credit[index]),
                     freed[index].eq(after(freed[index], tells.freed[index])),
                     credited[index].eq(after(credited[index], hearing["known"][index] != hearing["credited"][index]))]
        with m.If(hears.heard & (hears.heard_class == index)):
            m.d.sync += known[index].eq(come[f"number_{index}"])
        harness.assume(~tells.freed[index] | (under_way < places))
        for register, number in ((telling["freed"], freed), (hearing["credited"], credited), (hearing["known"], known)):
            harness.invariant((number[index] < period) & (register[index] == counts[number[index]]))
        chain = [known[index], *(way[f"number_{index}"] for way in wires.ways)]
        for before, number in pairwise(chain):
            harness.invariant((number < period) & (apart(credited[index], before) <= apart(credited[index], number)))
        for way in wires.ways:
            harness.invariant((way["class"] != index) | (way["count"] == counts[way[f"number_{index}"]]))
        harness.invariant(apart(credited[index], freed[index]) + hears.credit[index] == under_way)
        harness.invariant(under_way <= places)
        harness.claim(_GIVEN, ~hears.credit[index] | (under_way != 0))
        harness.claim(_NONE_LOST, (telling["freed"][index] != hearing["credited"][index])
                      | (under_way == hears.credit[index]))
        harness.claim(_EACH_CYCLE, hears.credit[index] == harness.past(
            hearing["known"][index] != hearing["credited"][index]))


PROOFS = (
    Proof("link-credits", "plinth_hw.comm.link_credits", credits, 2, (
        Twin(_GIVEN, "with m.If(gives):", "with m.If(gives & ~self.heard):"),
        Twin(_GIVEN, "with m.If(self.heard & (self.heard_class == number)):", "with m.If(self.heard):"),
        Twin(_NONE_LOST, "with m.If(self.freed[number]):", "with m.If(self.freed[number] & ~self.take):"),
        Twin(_EACH_CYCLE, "self.credit[number].eq(gives)", "self.credit[number].eq(gives & ~self.heard)"),
    )),
    Proof("link-room", "plinth_hw.comm.link_transmit", room, 2, (
        Twin(_ROOM, "~outstanding[-1] & ~outstanding[-4:-1].all()", "~outstanding[-1]", 20),
    )),
    Proof("link-transmit", "plinth_hw.comm.link_transmit", replay, 2, (
        Twin(_ORDER, "write.addr.eq(written[:place_bits])", "write.addr.eq(0)"),
        Twin(_NOTHING, "get.eq(self.take & (upcoming != written) & ~overtaken)", "get.eq(self.take & ~overtaken)"),
        Twin(_PLACES, "self.i.ready.eq(~outstanding[-1])", "self.i.ready.eq(~outstanding[0])"),
        Twin(_HONEST, "[acked.eq(self.heard.expected), ", "[acked.eq(self.heard.expected + 1), "),
    )),
    Proof("link-receive", "plinth_hw.comm.link_receive", replay, 2, (
        Twin(_ORDER, "self.o.valid.eq(speaks & is_flit & is_next)", "self.o.valid.eq(speaks & is_flit)"),
        Twin(_ORDER, "self.frame.valid & self.frame.good & (is_flit", "self.frame.valid & (is_flit"),
        Twin(_NOTHING, "self.o.valid.eq(speaks & is_flit & is_next)", "self.o.valid.eq(speaks & is_next)"),
        Twin(_HONEST, "self.expected.eq(self.expected + 1)", "self.expected.eq(self.expected + 2)"),
    )),
)
