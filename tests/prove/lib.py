"""Proofs of :mod:`plinth_hw.lib`."""

from collections.abc import Callable
from itertools import pairwise
from types import ModuleType

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from tests.prove.harness import Harness, follows_turn, one_hot
from tests.prove.proof import Proof, Twin


def fifo(depth: int, storage: str) -> Callable[[Harness, ModuleType], None]:
    """A FIFO of payloads of two bits."""

    def build(harness: Harness, code: ModuleType) -> None:
        m, register = harness.m, storage != "LUT"
        queue = code.FIFO(2, depth, code.Storage[storage])
        head = storage in ("HEAD", "PINS")
        ring = depth - head
        state = harness.block(queue, peeked=("storage",) if ring > 1 else ())
        written, taken = state["written"], state["taken"]
        put, get = queue.i.valid & queue.i.ready, queue.o.valid & queue.o.ready
        held = Signal(range(depth + 2))
        m.d.sync += held.eq(held + put - get)
        # Some payload, any of them: how many are before it.
        pick = harness.free(1, "pick")
        watched = Signal()
        before = Signal(range(depth + 2))
        payload = Signal(2)
        with m.If(put & pick & ~watched):
            m.d.sync += [watched.eq(1), before.eq(held - get), payload.eq(queue.i.payload)]
        with m.Elif(watched & get):
            m.d.sync += [before.eq(before - 1), watched.eq(before != 0)]

        # Where it lies: pointers go through all places, in an order that is no count.
        order = [Signal.like(written, name=f"place_{index}") for index in range(ring)]
        m.d.comb += [place.eq(code.in_ring(before, ring)) for before, place in pairwise(order)]
        inside, at = Signal(range(ring + 1)), Signal(range(2 * depth + 2))
        number = [sum(Mux(pointer == place, index, 0) for index, place in enumerate(order))
                  for pointer in (written, taken)]
        full = ~state["room"] & ~harness.first if storage == "PINS" else ~state["room"]
        m.d.comb += inside.eq(Mux(full, ring, Mux(number[0] >= number[1], number[0] - number[1],
                                                           ring + number[0] - number[1])))
        for pointer in (written, taken):
            harness.invariant(Cat(pointer == place for place in order).any())
        harness.invariant(~full | (written == taken))
        shown = queue.o.valid if register else 0
        if ring > 1:
            peek = state["storage_peek"][0]
            m.d.comb += [at.eq(number[1] + before - shown), peek.addr.eq(Array(order)[Mux(at >= ring, at - ring, at)])]
            there = peek.data
        else:
            there = state["stored"]
        harness.invariant(state["holds"] == (inside != 0))
        harness.invariant(held == inside + shown)
        harness.invariant(~watched | (before < held))
        harness.invariant(~watched | (payload == (Mux(queue.o.valid & (before == 0), queue.o.payload, there)
                                                  if register else there)))
        if head:
            harness.invariant(queue.o.valid | (inside == 0))

        harness.claim("payloads come out in their order, none lost, repeated or changed",
                      ~get | ~watched | (before != 0) | (queue.o.payload == payload))
        harness.claim("nothing comes out that did not go in", ~queue.o.valid | (held != 0))
        harness.claim("an offer stands until it is taken", harness.stable(queue.o))
        takes = held != ring + shown
        harness.claim("it takes payloads while a place is free",
                      queue.i.ready == (takes & ~harness.first if storage == "PINS" else takes))
        harness.claim("what it holds is offered", queue.o.valid | (held == 0) if storage != "BLOCK" else
                      ~harness.past(held != 0) | queue.o.valid | harness.past(get))
        harness.claim("empty: all that was taken has been given", queue.empty == (held == 0))
        if storage == "PINS":
            shown_last = Signal.like(queue.o.payload)
            m.d.sync += shown_last.eq(queue.o.payload)
            harness.claim("what is offered is zero at first, and changes with an offer alone",
                          queue.o.valid | (queue.o.payload == shown_last))

    return build


_ORDER = "payloads come out in their order, none lost, repeated or changed"
_FIFO = (
    Twin(_ORDER, "write.addr.eq(written)", "write.addr.eq(0)"),
    Twin("nothing comes out that did not go in", "holds.eq(after_taken != written)", "holds.eq(1)"),
    Twin("it takes payloads while a place is free", "room.eq(after_written != taken)", "room.eq(1)"),
)
_FIFO_LUT = (
    *_FIFO,
    Twin("an offer stands until it is taken", "m.d.comb += [self.o.valid.eq(holds), ",
         "m.d.comb += [self.o.valid.eq(holds & ~self.i.valid), "),
    Twin("what it holds is offered", "self.o.valid.eq(holds), get", "self.o.valid.eq(holds & self.i.valid), get"),
    Twin("empty: all that was taken has been given", "self.empty.eq(~holds),", "self.empty.eq(holds),"),
)
_FIFO_BLOCK = (
    *_FIFO,
    Twin("an offer stands until it is taken", "with m.If(get | self.o.ready | passes):",
         "with m.If(get | self.i.valid | passes):"),
    Twin("what it holds is offered", "get.eq(holds & (~self.o.valid | self.o.ready))",
         "get.eq(holds & self.o.ready)"),
    Twin("empty: all that was taken has been given", "self.empty.eq(~holds & ~self.o.valid)", "self.empty.eq(~holds)"),
)
#: A register slice: one place and the head.
_FIFO_SLICE = (
    *_FIFO[1:],
    Twin(_ORDER, "first.eq(Mux(holds, stored, pushed))", "first.eq(pushed)"),
    Twin("an offer stands until it is taken", "with m.If(get | passes if pins else ~self.o.valid | self.o.ready):",
         "with m.If(self.i.valid):"),
    Twin("what it holds is offered", "self.o.valid.eq(get | passes)", "self.o.valid.eq(get)"),
    Twin("empty: all that was taken has been given", "self.empty.eq(~holds & ~self.o.valid)", "self.empty.eq(~holds)"),
)
_FIFO_PINS = (
    *_FIFO_SLICE, Twin("what is offered is zero at first, and changes with an offer alone",
                       "(get | passes if pins else ~self.o.valid | self.o.ready)", "(~self.o.valid | self.o.ready)"),
)
_FIFO_HEAD = (
    *_FIFO_SLICE, _FIFO[0], Twin(_ORDER, "passes.eq(self.i.valid & none & ", "passes.eq(self.i.valid & "),
)


def round_robin(harness: Harness, code: ModuleType) -> None:
    """Of four; one of them, whichever, is watched."""
    m, width = harness.m, 4
    arbiter = code.RoundRobin(width)
    state = harness.block(arbiter)
    watched = harness.fixed(range(width), "watched")
    mine, others = Signal(), Signal(range(width + 1))
    m.d.comb += mine.eq(arbiter.requests.bit_select(watched, 1))
    taken = arbiter.taken & arbiter.requests.any()
    granted = arbiter.grant.bit_select(watched, 1)
    with m.If(~mine | (taken & granted)):
        m.d.sync += others.eq(0)
    with m.Elif(taken):
        m.d.sync += others.eq(others + 1)
    # Places from the one that was granted last to the watched one, going up, 1 to 4.
    last, away = Signal(range(width)), Signal(range(width + 1))
    m.d.comb += [last.eq(Cat(arbiter.last[1] | arbiter.last[3], arbiter.last[2] | arbiter.last[3])),
                 away.eq(Mux(watched > last, watched - last, width + watched - last))]
    harness.invariant(follows_turn(state["first"], arbiter.last))
    harness.invariant(others <= width - away)
    harness.claim("one is granted, which asks, whenever one asks", Mux(
        arbiter.requests == 0, arbiter.grant == 0, one_hot(arbiter.grant) & ((arbiter.grant & ~arbiter.requests) == 0)))
    harness.claim("the index is that of the grant", arbiter.grant == Mux(
        arbiter.requests == 0, 0, (1 << arbiter.index)[:width]))
    harness.claim("who keeps asking waits for each other one once", others <= width - 1)


def delay_line(harness: Harness, code: ModuleType) -> None:
    """Of 18 cycles: two sections, the second one of two."""
    line = code.DelayLine(2, 18)
    harness.block(line)
    word: Value = line.i
    for _ in range(18):
        word = harness.past(word)
    harness.claim("a word comes after so many cycles", line.o == word)


def choice(harness: Harness, code: ModuleType) -> None:
    """Of five words of two bits."""
    m, count = harness.m, 5
    words = [harness.free(2, f"word_{number}") for number in range(count)]
    index, enable = harness.free(3, "index"), harness.free(1, "enable")
    harness.assume(index < count)
    wanted = Signal(count)
    m.d.comb += wanted.eq((1 << index)[:count])
    picked, none = code.one_of(wanted, words), code.one_of(Const(0, count), words)
    chosen = Array(words)[index]
    enabled = Signal()
    with m.If(enable):
        m.d.sync += enabled.eq(1)
    kept = Signal(2)
    with m.If(enable):
        m.d.sync += kept.eq(chosen)
    registered = code.one_registered(m, "held", wanted, words, enable)
    harness.invariant(~enabled | (registered == kept))
    harness.claim("the one that is wanted, or zero", (picked == chosen) & (none == 0))
    harness.claim("the one that was wanted when it was enabled last", ~enabled | (registered == kept))
    harness.claim("the one of an index", code.select(words, index) == chosen)
    harness.claim("the index of the one", (code.index_of(wanted) == index) & (code.index_of(Const(0, count)) == 0))


def count(harness: Harness, code: ModuleType) -> None:
    """Of six bits."""
    bits = 6
    left, right = harness.free(bits, "left"), harness.free(bits, "right")
    up, down = harness.free(1, "up"), harness.free(1, "down")
    harness.claim("no two values are followed by the same one", (left == right) | (
        code.following(left) != code.following(right)))
    harness.claim("no two counts are followed by the same one", (left == right) | (
        code.counted(left)[:bits] != code.counted(right)[:bits]))
    harness.claim("one more, one less, or as many", code.stepped(left, up, down) == (left + up - down)[:bits])
    harness.claim("as many as bits are set", code.population(left) == sum(left))


def rotator(harness: Harness, code: ModuleType) -> None:
    """Eight lanes of two bits, both ways."""
    m, lanes = harness.m, 8
    words = [harness.free(2, f"word_{lane}") for lane in range(lanes)]
    amount, enable = harness.free(3, "amount"), harness.free(1, "enable")
    for up in (False, True):
        way = "up" if up else "down"
        rotated = Signal(2 * lanes, name=f"rotated_{way}")
        m.d.comb += rotated.eq(Cat(Array(words)[(lane - amount if up else lane + amount)[:3]] for lane in range(lanes)))
        outputs = code.rotate(m, f"now_{way}", words, amount, 0, 3, up=up)
        harness.claim("each lane goes so many on, in the same cycle", Cat(outputs) == rotated)
        spread = code.rotate_held(m, f"held_{way}", [words], 0, 3, lambda source, value, lane: amount == value, up=up)
        harness.claim("each lane goes so many on, a cycle later",
                      harness.first | (Cat(spread) == harness.past(rotated)))
        enabled, last = Signal(name=f"enabled_{way}"), Signal(2 * lanes, name=f"last_{way}")
        with m.If(enable):
            m.d.sync += [enabled.eq(1), last.eq(rotated)]
        for late in (False, True):
            inner = Module()
            kept = code.rotate_registered(inner, words, amount, enable, up=up, late=late)
            m.submodules[f"{'late' if late else 'registered'}_{way}"] = inner
            harness.invariant(~enabled | (Cat(kept) == last))
            harness.claim("each lane went so many on when it was enabled last", ~enabled | (Cat(kept) == last))


PROOFS = (
    Proof("choice", "plinth_hw.lib.choice", choice, 2, (
        Twin("the one that is wanted, or zero", "Mux(condition, value, 0) for", "Mux(condition, value, value & 1) for"),
        Twin("the one that was wanted when it was enabled last", "register.eq(Mux(condition, word, 0))",
             "register.eq(word)"),
        Twin("the one of an index", "Mux(index[bit], level[at + 1], level[at])",
             "Mux(index[bit], level[at], level[at + 1])"),
        Twin("the index of the one", "if number >> bit & 1).any()", "if number >> bit & 2).any()"),
    ), resets=False),
    Proof("count", "plinth_hw.lib.count", count, 2, (
        Twin("no two values are followed by the same one", ".xor() ^ ~place[:bits - 1].any()", ".xor() | place[0]"),
        Twin("no two counts are followed by the same one", "for tap in _TAPS[len(count)]).xor(), count)",
             "for tap in _TAPS[len(count)]).all(), count)"),
        Twin("one more, one less, or as many", "(down & ~up).replicate", "down.replicate"),
        Twin("as many as bits are set", "population(bits[:half]) + population(bits[half:])",
             "population(bits[:half]) | population(bits[half:])"),
    ), resets=False),
    Proof("rotator", "plinth_hw.lib.rotator", rotator, 2, (
        Twin("each lane goes so many on, in the same cycle", "cut = total - low if up else low",
             "cut = total - low if up else low + width"),
        Twin("each lane goes so many on, a cycle later", "places = (-value if up else value) << first_bit",
             "places = (value if up else value) << first_bit"),
        Twin("each lane went so many on when it was enabled last", "(-value if up else value) << low",
             "(value if up else -value) << low"),
    ), resets=False),
    *(Proof(f"fifo-{storage.lower()}-{depth}", "plinth_hw.lib.fifo", fifo(depth, storage), 2,
            twins)
      for depth, storage, twins in (
          (4, "LUT", _FIFO_LUT), (3, "LUT", _FIFO_LUT), (4, "BLOCK", _FIFO_BLOCK), (3, "BLOCK", _FIFO_BLOCK),
          (4, "HEAD", _FIFO_HEAD), (2, "HEAD", _FIFO_SLICE), (2, "PINS", _FIFO_PINS))),
    Proof("round-robin", "plinth_hw.lib.arbiter", round_robin, 2, (
        Twin("one is granted, which asks, whenever one asks", "lowest(later), lowest(requests)",
             "lowest(later), later"),
        Twin("the index is that of the grant", "self.index.eq(index_of(self.grant))", "self.index.eq(0)"),
        Twin("who keeps asking waits for each other one once", "first.eq(above(self.grant))", "first.eq(0)"),
    )),
    Proof("delay-line", "plinth_hw.lib.delay", delay_line, 20, (
        Twin("a word comes after so many cycles", "read.addr.eq(place - delay)", "read.addr.eq(place - delay + 1)", 24),
    ), resets=False),
)
