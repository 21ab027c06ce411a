"""Proofs of what tasks wait for: :mod:`plinth_hw.control.task_ring`, :mod:`plinth_hw.control.wait_poll`."""

from types import ModuleType

from amaranth.hdl import Array, Cat, Const, Mux, Signal, Value
from tests.prove.harness import Harness, follows_turn
from tests.prove.proof import Proof, Twin

from plinth_hw.control.fetch import header_word
from plinth_hw.control.task_ring import PLACE_BITS, RING_TASKS
from plinth_hw.isa.descriptors import HEADER_WORDS, WAITS, TaskHeader
from plinth_hw.isa.layout import pack
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import preset


def task_ring(harness: Harness, code: ModuleType) -> None:
    """The tasks of an engine, beside a scheduler that loads the next one when it is asked to."""
    m, ring = harness.m, code.TaskRing()
    state = harness.block(ring)
    # Tasks stored, started and completed, and bodies delivered: more than one can tell apart would do as well.
    stored, begun, ended, bodies = (Signal(8, name=name) for name in ("stored", "begun", "ended", "bodies"))
    loaded, unmet = Signal(), Signal(WAITS)
    m.d.sync += [stored.eq(stored + ring.commit), begun.eq(begun + ring.started), ended.eq(ended + ring.complete),
                 bodies.eq(bodies + ring.delivered)]
    with m.If(ring.set_waits):
        m.d.sync += [loaded.eq(1), unmet.eq(ring.new_waits)]
    with m.Else():
        m.d.sync += [loaded.eq(loaded & ~ring.started), unmet.eq(unmet & ~ring.met)]
    held, waiting, ahead = (stored - ended)[:8], (stored - begun)[:8], (bodies - begun)[:8]
    harness.assume(~ring.commit | (held != code.RING_TASKS))
    harness.assume(~ring.complete | (begun != ended))
    harness.assume(~ring.set_waits | ((waiting != 0) & ~loaded))
    harness.assume(~ring.delivered | (ahead < waiting))

    start = ring.start
    harness.claim("a task starts only once it is loaded and all its waits are met",
                  ~start.valid | (loaded & (unmet == 0) & (waiting != 0)))
    harness.claim("a task starts only once its body is delivered", ~start.valid | (ahead != 0))
    ready = loaded & (unmet == 0) & (ahead != 0) & ~ring.halted
    harness.claim("a task whose waits are met and whose body is there does start", start.valid | ~harness.past(
        ready & ~ring.started))
    harness.claim("a start stands until it is taken", harness.stable(start))
    harness.claim("tasks start in their order, each by its place", start.payload == Cat(begun[:code.PLACE_BITS], 1))
    harness.claim("there is room for eight", ring.room == (held != code.RING_TASKS))
    bits = code.PLACE_BITS + 1
    harness.invariant((ring.tail == stored[:bits]) & (ring.head == begun[:bits]) & (ring.old == ended[:bits]))
    harness.invariant((ring.loaded == loaded) & (~loaded | (ring.pending == unmet)) & (state["staged"] == ahead))
    harness.invariant((held <= code.RING_TASKS) & (waiting <= held) & (ahead <= waiting) & (~loaded | (waiting != 0)))


def wait_poll(harness: Harness, code: ModuleType) -> None:
    """Polls for two engines; of a wait, whichever."""
    m, engines = harness.m, 2
    poll = code.WaitPoll(engines, 64)
    state = harness.block(poll, peeked=("numbers",))
    engine, wait = harness.fixed(range(engines), "which_engine"), harness.fixed(range(WAITS), "which_wait")
    pending = Array(list(poll.pending))[engine]
    for index in range(engines):
        harness.assume(poll.waits[index] == poll.pending[index].any())
    harness.assume(~poll.taken | (poll.valid & ~poll.look))
    # Memory holds anything until the first task's counters come, which is before it waits.
    kept, comes = Signal(8), Signal()
    with m.If(poll.keep & (poll.keep_engine == engine)):
        m.d.sync += [kept.eq(poll.keep_counters.word_select(wait, 8)), comes.eq(1)]
    harness.assume(comes | (pending == 0))
    mine = poll.taken & (poll.engine == engine) & (poll.wait == wait)
    asked = harness.past(harness.past(mine))
    reached = (poll.slack - poll.awaited)[:32][31] == 0
    met = Array(list(poll.met))[engine].bit_select(wait, 1)
    harness.claim("a poll is of the counter that the wait names", ~mine | (poll.counter == kept[:len(poll.counter)]))
    harness.claim("a wait is met by an answer to its poll that has reached the value, and by no other", met == (
        asked & reached))
    # The wait stays pending: polls of others in the meantime.
    stays = pending.bit_select(wait, 1)
    others = Signal(range(4 * engines * WAITS))
    most = engines * WAITS
    m.d.sync += others.eq(Mux(~stays | mine, 0, others + poll.taken))
    harness.claim("a wait that is pending is polled after so many others at most", others <= most)

    peek = state["numbers_peek"][0]
    m.d.comb += peek.addr.eq(engine)
    harness.invariant(~comes | (Cat(peek.data).word_select(wait, 8) == kept))
    harness.invariant(comes | ((~poll.valid | (poll.engine != engine)) & ~asked))
    asked_0, asked_1, chosen = state["asked_0"], state["asked_1"], Cat(wait, engine)
    harness.invariant((state["asked"][0] & (asked_0 == chosen)) == harness.past(mine))
    harness.invariant((state["asked"][1] & (asked_1 == chosen)) == asked)

    turn, polled, follows, following = (state[name] for name in ("turn", "polled", "follows", "following"))
    harness.invariant(comes | ~follows | (following != engine))
    harness.invariant(follows_turn(state["inside"](turn)["first"], turn.last)
                      & (~follows | turn.last.bit_select(following, 1)))

    def away(to: Value, place: Value, count: int) -> Value:
        """From there to ``to``, going up: 1 to ``count``."""
        return Mux(to > place, to - place, count + to - place)

    # Others that may still come before: the one that is chosen, the one after it, and those chosen until it is the
    # engine's turn, and of the engine's the wait's.
    chosen_now = poll.valid & (poll.engine == engine) & (poll.wait == wait)
    rest = (away(wait, Array(polled)[engine], WAITS) - 1) * engines + Mux(
        follows & (following == engine), 0, follows + away(engine, turn.last[1], engines) - 1)
    harness.invariant(others + Mux(chosen_now, 0, poll.valid + rest) <= most)


def sequencer(harness: Harness, code: ModuleType) -> None:
    """Of two engines; of one of them, whichever, the task of one place and one of its waits, whichever.

    That a counter tells the truth is proved of the update counters, that a wait is polled and its task starts, of
    ``wait-poll`` and ``task-ring``.
    """
    m, parameters = harness.m, preset("ndp-tiny", engines=frozenset((Engine.VECTOR, Engine.TRANSFER)), address_bits=14)
    block = code.TaskSequencer(parameters)
    state = harness.block(block, peeked=("words", "words", "words", "numbers"))
    parts = state["parts"]
    which, place, wait = (harness.fixed(shape, name) for shape, name in (
        (range(2), "which"), (PLACE_BITS, "place"), (range(WAITS), "wait")))
    mine = block.position == which

    def own(name: str) -> Value:
        return Array(getattr(ring, name) for ring in parts.rings)[which]

    # Headers come in order, a task at a time, where there is room, and the next not before the last one is known.
    room = block.room.bit_select(block.position, 1)
    harness.assume(~(block.header_valid | block.commit) | (room & ~harness.past(block.commit)))
    # What was stored of the task in that place, a cycle after it came: the numbers of its counters, which waits it has,
    # and the wait's value.
    stored, begun = Signal(PLACE_BITS + 1), Signal(PLACE_BITS + 1)
    numbers, enables, value = Signal(32), Signal(32), Signal(32)
    writes = harness.past(block.header_valid & mine & (stored[:PLACE_BITS] == place))
    header_index, given_word = harness.past(block.header_index), harness.past(block.header_word)
    # Until they come memory holds anything; a task is known once all of it has come.
    came, comes = Signal(3), Signal(3)
    for bit, (index, word) in enumerate(((2, numbers), (3, enables), (HEADER_WORDS - WAITS + wait, value))):
        m.d.comb += comes[bit].eq(writes & (header_index == index))
        with m.If(comes[bit]):
            m.d.sync += [word.eq(given_word), came[bit].eq(1)]
    harness.assume(~(block.commit & mine & (stored[:PLACE_BITS] == place)) | (came | comes).all())
    harness.invariant(((place - begun)[:PLACE_BITS] >= (stored - begun)[:PLACE_BITS + 1]) | came.all())
    starts = block.started.bit_select(which, 1)
    commits = harness.past(block.commit & mine)
    m.d.sync += [stored.eq(stored + commits), begun.eq(begun + starts)]
    counter = numbers.word_select(wait, 8)[:len(block.poll_index)]
    enabled = header_word(enables, 3).wait_enable.bit_select(wait, 1)
    asks = block.poll_valid & block.poll_ready & (block.poll_index == counter)
    asked = Signal(2)
    reached = Signal()
    reaches = asked[1] & ((block.slack - value)[:32][31] == 0)
    at_head = begun[:PLACE_BITS] == place
    # An answer counts if the poll was made for the task that is there.
    with m.If(writes | (starts & at_head)):
        m.d.sync += [asked.eq(0), reached.eq(0)]
    with m.Else():
        m.d.sync += [asked.eq(Cat(asks, asked[0])), reached.eq(reached | reaches)]
    harness.claim("a task starts only once its counter has been seen to reach its value",
                  ~(starts & at_head & enabled) | reached)

    # A twin fails with a task that comes at once and is alone.
    now = Signal(5)
    m.d.sync += now.eq(now + (now != 31))
    harness.hint((which == 0) & (place == 0) & ~block.inspect_valid & (block.position == 0) & ~block.halted)
    harness.hint((block.header_valid == (now <= HEADER_WORDS)) & (block.header_index == now[:4]))
    harness.hint((block.commit == (now == HEADER_WORDS)) & (block.delivered == (now == HEADER_WORDS + 1)))
    header = pack(TaskHeader, {"wait_enable": 1, "wait_counter": [5, 0, 0, 0], "wait_value": [100, 0, 0, 0]})
    for index, hinted in enumerate((*header, 0)):
        harness.hint((now != index) | (block.header_word == hinted))
    harness.hint((wait == 0) & ((block.slack == 50) | (block.slack == 200)) & (block.cycle == 0))
    harness.hint(block.record_ready & block.local.ready & block.remote.ready)
    harness.hint(block.poll_ready & block.start_0.ready & ~block.done_0.valid & ~block.done_1.valid)

    within, step, first_step = state["in_state"], state["signals"]["step"], code._FIRST
    loaded, pending = own("loaded"), own("pending").bit_select(wait, 1)
    position = state["signals"]["served"]
    store, poll = state["inside"](parts.store), state["inside"](parts.poll)
    for peek, index in zip(state["words_peek"], (Const(2, 4), Const(3, 4), Const(4, 4) + wait), strict=True):
        m.d.comb += peek.addr.eq(Cat(index[:4], place, which))
    m.d.comb += state["numbers_peek"][0].addr.eq(which)
    kept = Cat(state["numbers_peek"][0].data)
    for peek, known, word in zip(state["words_peek"], came, (numbers, enables, value), strict=True):
        harness.invariant(~known | (peek.data == word))
    harness.invariant((own("tail") == stored) & (own("head") == begun))
    harness.invariant(((own("tail") - own("old"))[:PLACE_BITS + 1] <= RING_TASKS)
                      & ((own("tail") - own("head"))[:PLACE_BITS + 1] <= (own("tail") - own("old"))[:PLACE_BITS + 1]))
    results, of = parts.results, state["inside"](parts.results)["engine"]
    harness.invariant(~within("DONE") | (~results.busy & ((step == first_step) | (step <= 5))))
    harness.invariant(~state["may_end"] | ~results.busy)
    # What an engine offers stays until it is accepted, once.
    done = [getattr(block, f"done_{engine}") for engine in range(2)]
    for offer in done:
        harness.assume(harness.stable(offer))
    accept, failed, error, flags = (state["signals"][name] for name in ("accept", "failed", "error", "flags"))
    harness.invariant(~within("DONE") | Array(offer.valid for offer in done)[position])
    harness.invariant(~within("DONE") | (step == first_step) | (error == Array(
        Value.cast(offer.payload.error) for offer in done)[position]))
    harness.invariant(failed == (within("DONE") & (step == 3) & (error != 0)))
    part = state["inside"](results)["part"]
    harness.invariant((part <= 4) & (results.busy | (part == 0)))
    harness.invariant(accept == Mux(
        failed | (within("DONE") & (step == 2) & (error == 0) & ~flags[0]), Const(1, 2) << position,
        Mux(part == 4, Const(1, 2) << of, 0)))
    ended = state["signals"]["ended"]
    harness.invariant((ended & ~Cat(offer.valid for offer in done)) == 0)
    harness.invariant(~ended.bit_select(which, 1) | (own("old") != own("head")))
    completes = (within("DONE") & (position == which)) | (results.busy & (of == which))
    harness.invariant(~completes | (own("old") != own("head")))
    offered = Array(ring.start.valid for ring in parts.rings)[which]
    harness.invariant(~offered | (loaded & (own("pending") == 0)))
    harness.invariant(~loaded | (stored != begun))
    loading = within("LOAD") & (position == which)
    harness.invariant(~within("LOAD") | (step == first_step) | (step <= 3))
    harness.invariant(~state["loads"].bit_select(which, 1) | (~loaded & (stored != begun)))
    harness.invariant(~loading | (~loaded & (stored != begun)))
    ahead, word = store["read"].data, parts.store.read_word
    here = loading & at_head
    harness.invariant(~(here & (step == 1)) | (ahead == numbers))
    harness.invariant(~(here & (step == 2)) | ((ahead == enables) & (word == numbers)))
    harness.invariant(~(here & (step == 3)) | ((word == enables) & (kept == numbers)))
    head = loaded & at_head
    harness.invariant(~head | ((kept == numbers) & (pending | ~enabled | reached)))
    chosen = Cat(wait, which)
    first, second = (poll["asked"][n] & (poll[f"asked_{n}"] == chosen) for n in range(2))
    harness.invariant(~poll["asked"][0] | within("IDLE"))
    harness.invariant(~poll["asked"][1] | ~within("LOAD") | (step == first_step))
    harness.invariant(~(first & head) | ((ahead == value) & asked[0]))
    harness.invariant(~(second & head) | ((word == value) & asked[1]))


PROOFS = (
    Proof("task-ring", "plinth_hw.control.task_ring", task_ring, 2, (
        Twin("a task starts only once it is loaded and all its waits are met", "self.loaded & (self.pending == 0)",
             "self.loaded"),
        Twin("a task starts only once its body is delivered", "(staged != 0) & ~self.halted", "~self.halted"),
        Twin("a task whose waits are met and whose body is there does start", "self.pending & ~self.met",
             "self.pending"),
        Twin("a start stands until it is taken", "self.start.valid & self.start.ready)", "self.start.valid)"),
        Twin("tasks start in their order, each by its place", "self.head.eq(self.head + 1)",
             "self.head.eq(self.tail)"),
        Twin("there is room for eight", "!= RING_TASKS)", "!= RING_TASKS - 1)"),
    )),
    Proof("wait-poll", "plinth_hw.control.wait_poll", wait_poll, 3, (
        Twin("a poll is of the counter that the wait names", "keep.addr.eq(self.keep_engine)", "keep.addr.eq(0)"),
        Twin("a wait is met by an answer to its poll that has reached the value, and by no other",
             "asked_1.eq(asked_0)", "asked_1.eq(chosen)"),
        Twin("a wait is met by an answer to its poll that has reached the value, and by no other",
             "asked[1] & ~shortfall[31]", "asked[1] & (shortfall == 0)"),
        Twin("a wait that is pending is polled after so many others at most", "before.eq(wait)", "before.eq(0)"),
    )),
    Proof("waits", "plinth_hw.control.sequencer", sequencer, 3, (
        Twin("a task starts only once its counter has been seen to reach its value",
             "Cat(poll.wait, Const(1, STORED_BITS - 2))", "Cat(poll.wait, Const(2, STORED_BITS - 2))", 27),
        Twin("a task starts only once its counter has been seen to reach its value", "poll.keep.eq(step == 2)",
             "poll.keep.eq(step == 3)", 27),
    ), mapped=True),
)
