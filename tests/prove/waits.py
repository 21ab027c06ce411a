"""Proofs of what tasks wait for: :mod:`plinth_hw.control.task_ring`, :mod:`plinth_hw.control.wait_poll`."""

from types import ModuleType

from amaranth.hdl import Array, Cat, Mux, Signal, Value
from tests.prove.harness import Harness, one_hot
from tests.prove.proof import Proof, Twin

from plinth_hw.isa.tasks import WAITS


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
    for one in range(engines):
        harness.assume(poll.waits[one] == poll.pending[one].any())
    harness.assume(~poll.taken | (poll.valid & ~poll.look))
    kept = Signal(8)
    with m.If(poll.keep & (poll.keep_engine == engine)):
        m.d.sync += kept.eq(poll.keep_counters.word_select(wait, 8))
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

    peek = state["numbers_peek"]
    m.d.comb += peek.addr.eq(engine)
    harness.invariant(Cat(peek.data).word_select(wait, 8) == kept)
    asked_0, asked_1, chosen = state["asked_0"], state["asked_1"], Cat(wait, engine)
    harness.invariant((state["asked"][0] & (asked_0 == chosen)) == harness.past(mine))
    harness.invariant((state["asked"][1] & (asked_1 == chosen)) == asked)

    turn, polled = state["turn"], state["polled"]
    harness.invariant(one_hot(turn.last))

    def away(to: Value, place: Value, count: int) -> Value:
        """From there to ``to``, going up: 1 to ``count``."""
        return Mux(to > place, to - place, count + to - place)

    # Others that may still come before: the one that is chosen, and those chosen until it is the engine's turn, and of
    # the engine's the wait's.
    chosen_now = poll.valid & (poll.engine == engine) & (poll.wait == wait)
    rest = (away(wait, Array(polled)[engine], WAITS) - 1) * engines + away(engine, turn.last[1], engines) - 1
    harness.invariant(others + Mux(chosen_now, 0, poll.valid + rest) <= most)


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
)
