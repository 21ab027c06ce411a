"""Collective engine, network interface and router: rings of dies against the golden collectives."""

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.support.engine_bench import body_words
from tests.support.refusal import refused
from tests.support.ring import Ring

from plinth_hw.comm.collective import CollectiveEngine
from plinth_hw.comm.message import chunks_in_flight, message_layout, step_layout
from plinth_hw.comm.route_setter import RouteSetter
from plinth_hw.control.dispatch import Dispatch
from plinth_hw.control.scheduler import Scheduler
from plinth_hw.isa.formats import FP32, Q3_12, factor_word
from plinth_hw.isa.operations import CollectiveOperation, Engine, ErrorCode, UpdateOperation
from plinth_hw.isa.parameters import preset
from plinth_hw.isa.update_bodies import CollectiveBody
from plinth_sim.golden import collective
from plinth_sim.golden.matrix import storage

pytestmark = pytest.mark.xdist_group("collective-engine")

PARAMETERS = preset("ndp-tiny")
#: The same with words of 16 bits.
FIXED = replace(PARAMETERS, multiply_format=Q3_12)
CHUNK, BEAT = PARAMETERS.chunk_words, PARAMETERS.beat_words
ROUND = CHUNK * chunks_in_flight(PARAMETERS)
BASES = [0] * 16
BASES[2], BASES[9] = 3 * BEAT, 5 * BEAT
ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, SET_GROUP, _ = CollectiveOperation
NONE, SGD = UpdateOperation


@pytest.mark.parametrize("name", ["ndp-tiny", "ndp-paper"])
def test_numbers_of_chunks_hold_the_longest_message(name: str) -> None:
    """Of 2^32 - 1 words, and the numbers of the round behind it."""
    parameters = preset(name)
    chunks = (2**32 - 1) // parameters.chunk_words
    assert message_layout(parameters)["full_chunks"].width == chunks.bit_length()
    assert step_layout(parameters)["chunk"].width == (chunks + (chunks_in_flight(parameters) << 8)).bit_length()


@pytest.mark.parametrize("bits", [1, 8])
def test_dies_are_all_that_numbers_name_where_nobody_says_how_many(bits: int) -> None:
    parameters = preset("ndp-tiny-routes", die_bits=bits)
    for component in (CollectiveEngine(parameters), RouteSetter(parameters), Dispatch(parameters),
                      Scheduler(parameters)):
        assert (component.dies.init, len(component.dies)) == (1 << bits, bits + 1)


@pytest.fixture(scope="module")
def ring():
    return Ring(PARAMETERS)


@pytest.fixture(scope="module")
def fixed_ring():
    return Ring(FIXED)


@dataclass(frozen=True)
class Message:
    """One collective of the dies ``dies``, in the order of their ring."""

    operation: CollectiveOperation
    words: int
    source: int
    destination: int
    update: UpdateOperation = NONE
    rate: float = 0.37
    number: int = 0
    group: int = 0
    dies: tuple[int, ...] = ()

    def task(self, earliest=0, fmt=FP32, **changes):
        """Operation, earliest start and body; ``changes`` are fields of the body."""
        fields: dict[str, Any] = {
            "source": {"offset": self.source - BASES[2], "base": 2},
            "destination": {"offset": self.destination - BASES[9], "base": 9},
            "words": self.words, "group": self.group, "update": self.update, "message": self.number,
            "rate": factor_word(fmt, self.rate), **changes}
        return self.operation.value, earliest, body_words(CollectiveBody, fields)

    def apply(self, memories, fmt=FP32):
        """What the golden model makes of the memories."""
        def at(address):
            return [memories[die, address:address + self.words].view(storage(fmt)).copy() for die in self.dies]

        if self.operation is ALL_GATHER:
            results = collective.all_gather(at(self.source), CHUNK, fmt)
        else:
            run = collective.all_reduce if self.operation is ALL_REDUCE else collective.reduce_scatter
            results = run(at(self.source), at(self.destination), self.rate, CHUNK, self.update, fmt)
        for die, result in zip(self.dies, results, strict=True):
            memories[die, self.destination:self.destination + self.words] = result.view(memories.dtype)

    def sent(self, member):
        """Words that a member sends."""
        owner = collective.owners(self.words, len(self.dies), CHUNK)
        count = len(self.dies)
        if count == 1:
            return 0
        passed_on = self.words - int((owner == (member + 1) % count).sum())  # results
        partial = self.words - int((owner == member).sum())
        if self.operation is REDUCE_SCATTER:
            return partial
        return passed_on if self.operation is ALL_GATHER else partial + passed_on


def set_group(dies, place, group=0, **changes):
    """SET_GROUP for member ``place`` of the ring ``dies``."""
    fields = {"group": group, "members": len(dies), "index": place,
              "next_die": dies[(place + 1) % len(dies)], **changes}
    return SET_GROUP.value, 0, body_words(CollectiveBody, fields)


def place_messages(messages):
    """The same messages in separate regions; returns them and the words of memory needed."""
    placed, address = [], 8 * BEAT
    for message in messages:
        size = -(-message.words // BEAT) * BEAT + BEAT
        in_place = message.source == message.destination
        placed.append(replace(message, source=address, destination=address + (0 if in_place else size)))
        address += 2 * size
    return placed, address


def numbers(rng, shape, special=False, fmt=FP32):
    """Memory images: plain numbers, or any bits with many NaNs, infinities, zeros and subnormals; of fixed point
    numbers of all magnitudes, or many at its ends."""
    if fmt != FP32:
        plain = rng.integers(fmt.least, fmt.most, shape, endpoint=True) >> rng.integers(0, fmt.bits, shape)
        ends = rng.choice([fmt.least, fmt.least + 1, -1, 0, 1, fmt.most - 1, fmt.most], shape)
        return np.where(special & (rng.random(shape) < 0.3), ends, plain).astype(np.int16).view(np.uint16)
    if not special:
        return rng.standard_normal(shape).astype(np.float32).view(np.uint32)
    bits = rng.integers(0, 1 << 32, shape, dtype=np.uint64).astype(np.uint32)
    odd = np.array([0x7FC00000, 0xFFC00001, 0x7F800001, 0x7F800000, 0xFF800000, 0, 0x80000000, 1, 0x807FFFFF,
                    0x7F7FFFFF], np.uint32)
    return np.where(rng.random(shape) < 0.3, rng.choice(odd, shape), bits)


def run(ring, dies, messages, *, rng, special=False, skew=0, orders=None, **settings):
    """Run messages on dies 0 .. dies - 1 in each die's order, and compare memories and reports."""
    messages, words = place_messages([m if m.dies else replace(m, dies=tuple(range(dies)))
                                      for m in messages])
    fmt = ring.parameters.memory_format
    memories = numbers(rng, (dies, words), special, fmt)
    expected = memories.copy()
    for message in messages:
        message.apply(expected, fmt)
    rings = {(m.group, m.dies) for m in messages}
    tasks, mine = [], []
    for die in range(dies):
        order = orders[die] if orders else range(len(messages))
        mine.append([messages[place] for place in order if die in messages[place].dies])
        groups = [set_group(members, members.index(die), group) for group, members in sorted(rings)
                  if die in members]
        tasks.append(groups + [m.task(int(rng.integers(0, skew + 1)), fmt) for m in mine[die]])
    outcome = ring.run(memories, tasks, bases=BASES, **settings)
    assert (memories == expected).all()
    assert not outcome.results[:, :, 0].any()
    for die in range(dies):
        first = len(tasks[die]) - len(mine[die])
        sent = [int(words) for words in outcome.results[die, first:len(tasks[die]), 2]]
        assert sent == [m.sent(m.dies.index(die)) for m in mine[die]]
        assert outcome.strobes[die, 4] == sum(sent)
        # A message's stalls are its block's; the engine stalls in the cycles in which no block goes on.
        stalls, cycles = outcome.results[die, first:len(tasks[die]), 1].sum(), outcome.strobes[die, :4].sum()
        assert outcome.strobes[die, 1:4].sum() <= stalls <= ring.parameters.reduce_blocks * cycles
        ends = outcome.results[die, :len(tasks[die]), 3]
        assert (np.diff(ends.astype(np.int64)) > 0).all()
    return outcome


LENGTHS = (1, BEAT - 1, BEAT + 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK + 2, 4 * CHUNK - 9,
           4 * ROUND, 4 * ROUND + 1, 11 * ROUND + 5 * CHUNK + 13)
KINDS = ((ALL_REDUCE, NONE), (ALL_REDUCE, SGD), (REDUCE_SCATTER, NONE), (REDUCE_SCATTER, SGD),
         (ALL_GATHER, NONE))


@pytest.mark.parametrize(("operation", "update"), KINDS)
@pytest.mark.parametrize("dies", [1, 2, 3, 4])
def test_lengths(ring, dies, operation, update):
    """Every operation and update, lengths round all the borders, two messages in flight."""
    rng = np.random.default_rng(dies)
    run(ring, dies, [Message(operation, words, 0, 1, update, number=place)
                     for place, words in enumerate(LENGTHS)], rng=rng)


@pytest.mark.parametrize("dies", [1, 3])
def test_lengths_in_fixed_point(fixed_ring, dies):
    rng = np.random.default_rng(dies)
    run(fixed_ring, dies, [Message(operation, words, 0, 1, update, rate=rate, number=place)
                           for (operation, update), rate in zip(KINDS, (0.1, 1.7, 0.0, 3e-4, 1.0), strict=True)
                           for place, words in enumerate(LENGTHS[:-1])], rng=rng)


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize(("seed", "dies", "availability", "latency", "link_delay", "skew"), [
    (1, 4, 0.5, 3, 0, 0), (2, 4, 0.9, 25, 3, 9000), (3, 3, 0.25, 1, 1, 3000), (4, 2, 0.6, 60, 20, 9000),
    (5, 2, 0.3, 5, 0, 300), (6, 1, 0.4, 9, 0, 0), (7, 4, 1.0, 1, 0, 20000)])
def test_random(ring, seed, dies, availability, latency, link_delay, skew, special):
    """Random messages, stalls and delays; dies get to them at different times."""
    random_messages(ring, seed, dies, availability, latency, link_delay, skew, special)


@pytest.mark.parametrize(("seed", "dies", "availability", "latency", "link_delay", "skew"), [
    (1, 4, 0.5, 3, 0, 0), (4, 2, 0.6, 60, 20, 9000), (7, 4, 1.0, 1, 0, 20000)])
def test_random_in_fixed_point(fixed_ring, seed, dies, availability, latency, link_delay, skew):
    random_messages(fixed_ring, seed, dies, availability, latency, link_delay, skew, True)


def random_messages(ring, seed, dies, availability, latency, link_delay, skew, special):
    rng = np.random.default_rng(seed)
    messages = []
    for number in range(14):
        operation, update = KINDS[rng.integers(len(KINDS))]
        words = int(rng.integers(1, 1 << rng.integers(1, 12)))
        destination = int(rng.random() < 0.7)
        messages.append(Message(operation, words, 0, destination, update, rate=float(rng.exponential(0.4)),
                                number=200 + 3 * number))
    run(ring, dies, messages, rng=rng, special=special, skew=skew, seed=seed, availability=availability,
        latency=latency, link_delay=link_delay)


def test_in_place(ring):
    rng = np.random.default_rng(30)
    cases = product((ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER), (1, 5 * CHUNK + 3, 3000))
    run(ring, 3, [Message(operation, words, 0, 0, number=place)
                  for place, (operation, words) in enumerate(cases)], rng=rng, seed=4, availability=0.7)
    run(ring, 1, [Message(operation, 200, 0, 0, number=place)
                  for place, operation in enumerate((ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER))], rng=rng)


def test_orders_of_blocks(ring):
    """Messages of different blocks may come in different orders; a die that is late holds up only its own."""
    rng = np.random.default_rng(31)
    messages = [Message(ALL_REDUCE, words, 0, 1, SGD, number=number)
                for number, words in enumerate((900, 1500, 40, 2000, 700, 1))]
    run(ring, 4, messages, rng=rng, orders=[(0, 1, 2, 3, 4, 5), (1, 0, 3, 2, 5, 4), (0, 1, 3, 2, 4, 5),
                                            (1, 0, 2, 3, 5, 4)], seed=3, availability=0.8, skew=2000)


def test_rings_at_once(ring):
    """Two rings of dies that are not neighbours, each in a block of its own, then all in another order."""
    rng = np.random.default_rng(32)
    run(ring, 4, [Message(ALL_REDUCE, 1000, 0, 1, SGD, number=0, group=3, dies=(2, 0)),
                  Message(ALL_REDUCE, 1333, 0, 1, NONE, number=1, group=5, dies=(1, 3)),
                  Message(ALL_GATHER, 500, 0, 1, number=2, group=3, dies=(2, 0)),
                  Message(REDUCE_SCATTER, 700, 0, 1, number=3, group=5, dies=(1, 3))],
        rng=rng, seed=5, availability=0.7)
    run(ring, 4, [Message(ALL_REDUCE, 1999, 0, 1, SGD, number=number, group=15, dies=(3, 1, 0, 2))
                  for number in range(3)], rng=rng, seed=6, availability=0.7)


@pytest.mark.parametrize("dies", [2, 4])
@pytest.mark.parametrize("update", [NONE, SGD])
def test_rate(ring, dies, update):
    """A long all-reduce runs at the speed of the link, alone and with another one beside it."""
    rng = np.random.default_rng(33)
    words = 16384
    limit = 2 * (dies - 1) / dies * words / PARAMETERS.flit_words / PARAMETERS.link_rate
    outcome = run(ring, dies, [Message(ALL_REDUCE, words, 0, 1, update)], rng=rng, latency=20)
    assert limit <= outcome.cycles <= limit / 0.97
    outcome = run(ring, dies, [Message(ALL_REDUCE, words, 0, 1, update, number=number) for number in (0, 1)],
                  rng=rng, latency=20)
    assert 2 * limit <= outcome.cycles <= 2 * limit / 0.97


def test_tasks_that_cannot_run(ring):
    """Each is refused with its code, in its place, and the others run."""
    rng = np.random.default_rng(34)
    good = Message(ALL_REDUCE, 300, 16 * BEAT, 128 * BEAT, dies=(0, 1))
    memories = numbers(rng, (2, 256 * BEAT))
    expected = memories.copy()
    good.apply(expected)
    unknown = (4, 0, good.task()[2])
    strange = good.task()
    strange[2][3] |= 2 << 4  # the update
    tasks = [[
        good.task(),                                                            # the group was never set
        set_group((0, 1), die, members=0, index=0), set_group((0, 1), die, index=2),
        set_group((0, 1), die, members=3), set_group((0, 1), die, next_die=2), set_group((0, 1), die, next_die=1023),
        good.task(),                                                            # nor was it by these
        set_group((0, 1), die),
        good.task(words=0), good.task(source={"offset": 1, "base": 2}),
        good.task(destination={"offset": BEAT // 2, "base": 9}), good.task(group=1), strange,
        good.task(), unknown, set_group((0, 1), die, group=1)] for die in range(2)]
    outcome = ring.run(memories, tasks, bases=BASES, seed=2, availability=0.6)
    operand, operation, unknown_die, none = (code.value for code in (
        ErrorCode.BAD_OPERAND, ErrorCode.BAD_OPERATION, ErrorCode.BAD_DIE, ErrorCode.NONE))
    codes = [operand] * 3 + [unknown_die] * 3 + [operand] + [none] + [operand] * 5 + [none, operation, none]
    assert outcome.results[:, :, 0].tolist() == [codes, codes]
    assert (memories == expected).all()


@pytest.mark.parametrize("other", [{"group": 5}, {"message": 4}])
def test_flits_of_another_message_wait(ring, other):
    """Of two dies one has a message of another group, or another one of the group: neither takes the other's words."""
    message = Message(ALL_REDUCE, 300, 16 * BEAT, 128 * BEAT, group=3)
    memories = numbers(np.random.default_rng(36), (2, 256 * BEAT))
    before = memories[:, message.destination:].copy()
    tasks = [[set_group((0, 1), die, group) for group in (3, 5)] + [message.task(**(other if die else {}))]
             for die in range(2)]
    with pytest.raises(AssertionError, match=r"not ended; 2/3 tasks 2/3 tasks"):
        ring.run(memories, tasks, bases=BASES, limit_cycles=5000)
    assert (memories[:, message.destination:] == before).all()


def test_advances(ring):
    """Advances of other dies' counters and of one's own, beside collectives: none is lost."""
    rng = np.random.default_rng(35)
    dies = 4
    sends = [[(int(rng.integers(dies)), int(rng.integers(PARAMETERS.counters))) for _ in range(400)]
             for _ in range(dies)]
    expected = np.zeros((dies, PARAMETERS.counters), np.uint32)
    for list_ in sends:
        np.add.at(expected, tuple(np.array(list_).T), 1)
    outcome = run(ring, dies, [Message(ALL_REDUCE, 1000, 0, 1, number=number) for number in range(2)],
                  rng=rng, advances=sends, seed=1, availability=0.4)
    assert (outcome.advances == expected).all()


@pytest.mark.parametrize(("dies", "sources"), [(1, [0]), (2, [1]), (4, [2]), (4, [0, 3]), (4, [0, 1, 2, 3])])
def test_errors(ring, dies, sources):
    """An error is told to every other die, whatever else is sent, and the packets come to an end."""
    sends = [[((die + 1) % dies, 1), ((die + dies - 1) % dies, 2)] * 40 for die in range(dies)]
    outcome = ring.run(np.zeros((dies, BEAT), np.uint32), [[]] * dies, advances=sends, seed=1,
                       availability=0.5, errors=[(40, source) for source in sources])
    for die in range(dies):
        told = outcome.errors[die].nonzero()[0].tolist()
        assert set(told) <= set(sources)
        assert outcome.errors[die].sum() == (die not in sources)
    assert outcome.advances.sum() == 80 * dies


def test_bad_parameters():
    for chunk_words in (2, 512):
        with refused(ValueError, f"chunk_words must be from 4 to 256, 64 beats, not {chunk_words}"):
            CollectiveEngine(replace(PARAMETERS, chunk_words=chunk_words, engines=frozenset({Engine.COLLECTIVE})))
    with refused(ValueError, "flit_words must be at most beat_words = 4, not 8"):
        CollectiveEngine(replace(PARAMETERS, flit_words=8))
