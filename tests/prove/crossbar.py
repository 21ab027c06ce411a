"""Proof of :mod:`plinth_hw.memory.crossbar`."""

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from amaranth.hdl import Array, Cat, Mux, Signal, Value
from tests.prove.harness import Harness, follows_turn, one_hot
from tests.prove.proof import Proof, Twin

from plinth_hw.isa.parameters import preset
from plinth_hw.lib.count import index_bits
from plinth_hw.memory.port import MAX_BEATS

#: Requests each way that wait for data or a response.
OUTSTANDING = 2


class Ledger:
    """Requests that the memory has taken, the oldest first: whose and of which task, and how many beats of it are still
    to come."""

    def __init__(self, harness: Harness, put: Value, who: Value, task: Value, beats: Value | int, get: Value,
                 name: str) -> None:
        m, places = harness.m, range(OUTSTANDING)
        self.count = Signal(range(OUTSTANDING + 1), name=f"{name}_count")
        self.who = [Signal(len(who), name=f"{name}_who_{place}") for place in places]
        self.task = [Signal(len(task), name=f"{name}_task_{place}") for place in places]
        self.left = [Signal(7, name=f"{name}_left_{place}") for place in places]
        goes, last = Signal(name=f"{name}_goes"), Signal.like(self.count, name=f"{name}_last")
        m.d.comb += [goes.eq(get & (self.left[0] == 1)), last.eq(self.count - goes)]
        m.d.sync += self.count.eq(last + put)
        for place in places:
            after = min(place + 1, OUTSTANDING - 1)
            left = self.left[place] - get if place == 0 else self.left[place]
            with m.If(put & (last == place)):
                m.d.sync += [self.who[place].eq(who), self.task[place].eq(task), self.left[place].eq(beats)]
            with m.Else():
                m.d.sync += [self.who[place].eq(Mux(goes, self.who[after], self.who[place])),
                             self.task[place].eq(Mux(goes, self.task[after], self.task[place])),
                             self.left[place].eq(Mux(goes, self.left[after], left))]

    def oldest(self, number: int) -> Value:
        """Whether the oldest is of that client."""
        return (self.count != 0) & (self.who[0] == number)


def _one_hot(number: Value, clients: list[Any]) -> Value:
    """Whose it is, as the crossbar's queues have it."""
    return (1 << number)[:len(clients)]


@dataclass
class Side:
    """Readers or writers, and what was taken of them."""

    name: str
    clients: list[Any]
    memory: Any
    fault: Any
    state: dict[str, Any]
    inside: Callable[[Any], dict[str, Any]]

    def __post_init__(self) -> None:
        width, name = index_bits(len(self.clients)), self.name
        #: A request that has been taken, and is not at the memory; and whose.
        self.held, self.who = Signal(name=f"{name}_held"), Signal(width, name=f"{name}_who")
        self.request = Signal(len(self.clients[0].request.payload.as_value()), name=f"{name}_request")
        #: Clients that were at fault.
        self.blocked = Signal(len(self.clients), name=f"{name}_blocked")
        self.asks = self.memory.request.valid & self.memory.request.ready

    def requests(self, harness: Harness, limit: Value, room: Value) -> None:
        """Claims of requests; ``room``: the memory may be asked."""
        m, request = harness.m, self.memory.request.payload
        offered = Cat(client.request.valid for client in self.clients)
        taken = Signal(len(self.clients), name=f"{self.name}_taken")
        m.d.comb += taken.eq(Cat(client.request.valid & client.request.ready for client in self.clients))
        whose = Signal.like(self.who, name=f"{self.name}_whose")
        for number, client in enumerate(self.clients):
            with m.If(taken[number]):
                m.d.comb += whose.eq(number)
                m.d.sync += self.request.eq(client.request.payload)
            harness.assume(harness.stable(client.request))
            harness.assume((client.request.payload.beats > 0) & (client.request.payload.beats <= MAX_BEATS))
        layout = type(request)(request.shape(), self.request)
        # It had asked, and was told of its fault as this one was taken.
        barred = self.blocked.bit_select(self.who, 1)
        beyond = self.held & ((layout.address + layout.beats > limit) | barred)
        with m.If(taken.any()):
            m.d.sync += [self.held.eq(1), self.who.eq(whose)]
        with m.Elif(self.asks | beyond):
            m.d.sync += self.held.eq(0)
        with m.If(beyond):
            m.d.sync += self.blocked.eq(self.blocked | (1 << self.who)[:len(self.clients)])

        def claim(what: str, condition: Any) -> None:
            harness.claim(f"{self.name}: {what}", condition)

        claim("one request is taken whenever one is offered and none is held", taken.any() == (
            (offered & ~self.blocked).any() & (~self.held | (self.memory.request.ready & room))))
        claim("one at a time", ~taken.any() | one_hot(taken))
        claim("a request goes to the memory as it was given, once, in its turn", (
            self.memory.request.valid == (self.held & ~beyond & room))
            & (~self.memory.request.valid | (request.as_value() == self.request)))
        claim("a request beyond the memory goes nowhere, and is a fault of who asked", (
            self.fault.valid == harness.past(beyond & ~barred))
            & (~self.fault.valid | ((self.fault.index == harness.past(self.who))
                                    & (self.fault.task == harness.past(layout.task)))))
        claim("of who was at fault nothing goes to the memory", ~(taken & self.blocked).any() & ~(
            self.memory.request.valid & barred))

        # Some client, and some other one.
        count = len(self.clients)
        waits, other = (harness.fixed(range(count), f"{self.name}_{name}") for name in ("waits", "other"))
        asking = Signal(name=f"{self.name}_asking")
        m.d.comb += asking.eq((offered & ~self.blocked).bit_select(waits, 1))
        passed = Signal(name=f"{self.name}_passed")
        passes = taken.bit_select(other, 1) & (other != waits)
        m.d.sync += passed.eq(asking & ~taken.bit_select(waits, 1) & (passed | passes))
        claim("who keeps asking waits for one request of each other one", ~(asking & passed & passes))

        def away(place: Value) -> Value:
            """From there to who waits, going up: 1 to ``count``."""
            return Mux(waits > place, waits - place, count + waits - place)

        last, turn = Signal.like(self.who, name=f"{self.name}_last"), self.state["turn"]
        for number in range(count):
            with m.If(turn.last[number]):
                m.d.comb += last.eq(number)
        harness.invariant(follows_turn(self.inside(turn)["first"], turn.last))
        harness.assume((waits < count) & (other < count))
        harness.invariant(~passed | (away(last) <= away(other)))
        harness.invariant((self.state["held_valid"] == self.held) & (self.state["blocked"] == self.blocked))
        harness.invariant(~self.held | ((last == self.who) & (self.state["held"].as_value() == self.request)
                                        & (layout.beats > 0) & (layout.beats <= MAX_BEATS)))

    def follow(self, harness: Harness, step: Value) -> Ledger:
        """Requests whose data are to come; a beat comes with ``step``."""
        request = self.memory.request.payload
        ledger = Ledger(harness, self.asks, self.who, request.task, request.beats, step, f"{self.name}_data")
        queue, first, next_left, bits = *(self.state[name] for name in ("queue", "first", "left")), len(request.beats)
        harness.invariant(queue.count == ledger.count)
        for place in range(OUTSTANDING):
            held = queue.places[place]
            left = Mux(first, held[:bits], next_left + 2) if place == 0 else held[:bits]
            harness.invariant((ledger.count <= place) | (
                (left == ledger.left[place]) & (ledger.left[place] != 0) & (held[:bits] <= MAX_BEATS)
                & (held[bits:] == Cat(held[:bits] == 1, ledger.task[place],
                                      _one_hot(ledger.who[place], self.clients)))
                & (ledger.who[place] < len(self.clients))))
        harness.invariant((ledger.count != 0) | first)
        return ledger


def crossbar(harness: Harness, code: ModuleType) -> None:
    """Three readers and two writers; two requests each way may wait for data. Nothing is drained."""
    m = harness.m
    block = code.MemoryCrossbar(preset("ndp-tiny", address_bits=14), ["r0", "r1", "r2"], ["w0", "w1"], OUTSTANDING)
    state = harness.block(block)
    harness.assume(~block.drain)
    harness.assume(harness.first | (block.limit == harness.past(block.limit)))
    inside = state["inside"]
    readers, writers = [block.r0, block.r1, block.r2], [block.w0, block.w1]
    read = Side("read", readers, block.memory_read, block.read_fault, inside(state["read"]), inside)
    write = Side("write", writers, block.memory_write, block.write_fault, inside(state["write"]), inside)

    beat = block.memory_read.data
    awaited = read.follow(harness, beat.valid & beat.ready)
    harness.claim("read: idle while no beat is awaited", block.read_idle == (awaited.count == 0))
    read.requests(harness, block.limit, awaited.count != OUTSTANDING)
    harness.claim("read: a beat goes to who asked for it, and to no other", Cat(
        client.data.valid == (beat.valid & awaited.oldest(number)) for number, client in enumerate(readers)).all())
    harness.claim("read: it goes as it came, when it is taken", (
        beat.ready == ((awaited.count != 0) & Array(client.data.ready for client in readers)[awaited.who[0]]))
        & Cat(~client.data.valid | (client.data.payload.as_value() == beat.payload.as_value())
              for client in readers).all())

    # A beat that was taken, and is not at the memory.
    data, response = block.memory_write.data, block.memory_write.response
    held, held_beat = Signal(), Signal(len(data.payload.as_value()))
    taken = Signal(len(writers))
    m.d.comb += taken.eq(Cat(client.data.valid & client.data.ready for client in writers))
    with m.If(taken.any()):
        m.d.sync += held.eq(1)
    with m.Elif(data.ready):
        m.d.sync += held.eq(0)
    for number, client in enumerate(writers):
        harness.assume(harness.stable(client.data))
        with m.If(taken[number]):
            m.d.sync += held_beat.eq(client.data.payload)
    wanted = write.follow(harness, taken.any())
    unanswered = Ledger(harness, write.asks, write.who, block.memory_write.request.payload.task, 1, response,
                        "write_answers")
    harness.assume(~response | (unanswered.count != 0))
    write.requests(harness, block.limit, (wanted.count != OUTSTANDING) & (unanswered.count != OUTSTANDING))
    harness.claim("write: beats are taken of who asked, as many, and of no other", Cat(
        client.data.ready == (wanted.oldest(number) & (~held | data.ready))
        for number, client in enumerate(writers)).all())
    harness.claim("write: a beat goes to the memory as it was given, once, in its turn",
                  (data.valid == held) & (~held | (data.payload.as_value() == held_beat)))
    harness.claim("write: an answer goes to who asked, and to no other", Cat(
        client.response == (response & unanswered.oldest(number)) for number, client in enumerate(writers)).all())
    queue = state["unanswered"]
    harness.invariant(queue.count == unanswered.count)
    harness.invariant(state["full"] == held)
    for place in range(OUTSTANDING):
        harness.invariant((unanswered.count <= place) | (
            (unanswered.left[place] == 1) & (unanswered.who[place] < len(writers))
            & (queue.places[place] == Cat(_one_hot(unanswered.who[place], writers), unanswered.task[place]))))
    failed = beat.valid & beat.ready & (block.read_error | (block.read_not_last & (awaited.left[0] == 1)))
    for side, error, stray, told, ledger in (
            ("read", failed, block.read_stray, block.read_failed, awaited),
            ("write", block.write_error, block.write_stray, block.write_failed, unanswered)):
        its = harness.past(error & (ledger.count != 0) & ~stray)
        harness.claim(f"{side}: an error is told of who asked, and of the task",
                      (told.valid == harness.past(error | stray)) & (~its | (
                          Cat(told.index, told.task) == harness.past(Cat(ledger.who[0], ledger.task[0])))))
        harness.claim(f"{side}: what nothing asked for is of no task",
                      ~harness.past(stray) | (Cat(told.index, told.task) == 0))


PROOFS = (
    Proof("crossbar", "plinth_hw.memory.crossbar", crossbar, 2, (
        *(twin for side in ("read", "write") for twin in (
            Twin(f"{side}: one request is taken whenever one is offered and none is held",
                 "turn.requests.eq(wanting)", "turn.requests.eq(wanting & ~turn.last)"),
            Twin(f"{side}: one at a time", "self.ready[index].eq(free & turn.grant[index])",
                 "self.ready[index].eq(free & wanting[index])"),
            Twin(f"{side}: a request goes to the memory as it was given, once, in its turn",
                 "queue.i.valid.eq(self.request.valid & self.request.ready)", "queue.i.valid.eq(self.request.valid)"),
            Twin(f"{side}: a request beyond the memory goes nowhere, and is a fault of who asked",
                 "~known[-1] & (known[few:-1].any() | (known[:few] >= asked.beats))", "asked.address <= self.limit"),
            Twin(f"{side}: of who was at fault nothing goes to the memory", "blocked.eq(blocked | whose)",
                 "blocked.eq(whose)", 16),
            Twin(f"{side}: who keeps asking waits for one request of each other one",
                 "turn.taken.eq(free)", "turn.taken.eq(0)"))),
        Twin("read: a beat goes to who asked for it, and to no other",
             "first.eq(queue.o.ready)", "first.eq(0)"),
        Twin("read: it goes as it came, when it is taken",
             "(takes & read.data_whose).any() | ends", "1"),
        Twin("write: beats are taken of who asked, as many, and of no other", "Mux(first, head_single, left[-1])",
             "left[-1]"),
        Twin("write: a beat goes to the memory as it was given, once, in its turn",
             "self.memory_write.data.valid.eq(full)", "self.memory_write.data.valid.eq(write.data_valid)"),
        Twin("write: an answer goes to who asked, and to no other", "oldest.whose[index]",
             "write.data_whose[index]"),
        Twin("read: an error is told of who asked, and of the task", "Mux(self.read_stray, 0, read.data_task)",
             "Mux(self.read_stray, 0, read.request.payload.task)"),
        Twin("read: an error is told of who asked, and of the task", "self.read_not_last & read.data_ends",
             "self.read_not_last"),
        Twin("read: idle while no beat is awaited", "self.data_idle.eq(queue.empty)", "self.data_idle.eq(first)"),
        *(Twin(f"{side}: what nothing asked for is of no task", f"{side}_failed.index.eq(Mux(self.{side}_stray, ",
               f"{side}_failed.index.eq(Mux(0, ") for side in ("read", "write")),
        Twin("write: an error is told of who asked, and of the task", "index_of(oldest.whose)",
             "index_of(write.data_whose)"),
    ), queues=True),
)
