"""Transfer engines of two dies against the golden model: alignments, shapes, indices, adds, stalls."""

from types import SimpleNamespace

import numpy as np
import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import Out, connect, flipped
from tests.support.amaranth_sim import randomly, receive, simulate
from tests.support.engine_bench import body_words, run_tasks
from tests.support.memory_model import MemoryModel
from tests.support.refusal import refused
from tests.support.transforms import of_map, of_tiles, random_transform

from plinth_hw.comm.run_reader import packet_words
from plinth_hw.comm.transfer import TransferEngine
from plinth_hw.isa.formats import FP32, Q3_12
from plinth_hw.isa.operations import Engine, ErrorCode, TransferOperation
from plinth_hw.isa.parameters import preset
from plinth_hw.isa.transfer_bodies import TransferBody, TransformBody
from plinth_hw.isa.winograd import form
from plinth_sim.golden import transfer

TINY = preset("ndp-tiny", chunk_words=16)
#: Two and four words a flit, so that flits are cut and turned.
WIDE = preset("ndp-demo", chunk_words=32)
WIDER = preset("ndp-demo", chunk_words=16, flit_words=4)
#: Words of 16 bits.
FIXED = preset("ndp-demo", chunk_words=32, multiply_format=Q3_12)
#: With transforms, two words a flit and one; and with longer lines.
TILES = preset("ndp-tiny", chunk_words=16, transforms=((2, 3),))
NARROW_TILES = preset("ndp-tiny", chunk_words=16, flit_words=1, transforms=((2, 3),))
LARGE_TILES = preset("ndp-demo", chunk_words=64, transforms=((4, 3), (2, 5)))
#: Words of several flits a cycle within the die: of a beat, and of half a one.
BROAD = preset("ndp-demo", chunk_words=32, transfer_words=8)
BROAD_TILES = preset("ndp-tiny", chunk_words=16, transforms=((2, 3),), transfer_words=4)
HALF_BEAT_TILES = preset("ndp-demo", chunk_words=64, transforms=((2, 3),), transfer_words=4)
#: Fields of a body that transforms where it says nothing of them.
NO_PLACES = {name: 0 for name in TransformBody.FIELDS if name not in TransferBody.FIELDS}
WORDS = 1 << 13
HALF = WORDS // 2
BASES = [0] * 16
BASES[3], BASES[15] = 100, HALF - 28
COPY, ADD, TRANSFORM, TRANSFORM_ADD, *_ = (operation.value for operation in TransferOperation)
#: Numbers of the two dies.
DIES = (3, 4)


class Pair(wiring.Component):
    """Two engines; what one sends the other receives, while its gate is open."""

    def __init__(self, parameters):
        self.engines = [TransferEngine(parameters) for _ in DIES]
        self.gates = [Signal(init=1, name=f"gate_{n}") for n in range(2)]
        outer = {name: member for name, member in self.engines[0].signature.members.items()
                 if name in ("engine", "read", "add_read", "codes_read", "write", "tile_advance", "fault")}
        super().__init__({f"{name}_{n}": Out(member.signature) if member.is_signature else member
                          for name, member in outer.items() for n in range(2)})
        self.names = list(outer)

    def elaborate(self, platform):
        m = Module()
        for n, (engine, other) in enumerate(zip(self.engines, self.engines[::-1], strict=True)):
            m.submodules[f"engine_{n}"] = engine
            for name in self.names:
                inner, outer = getattr(engine, name), getattr(self, f"{name}_{n}")
                if name == "fault":
                    m.d.comb += outer.eq(inner)
                else:
                    connect(m, inner, flipped(outer))
            gate = self.gates[n]
            m.d.comb += [
                engine.die.eq(DIES[n]), engine.dies.eq(8), engine.limit.eq(WORDS // engine.parameters.beat_words),
                other.receive.payload.eq(engine.send.payload), other.receive.valid.eq(engine.send.valid & gate),
                engine.send.ready.eq(other.receive.ready & gate),
            ]
        return m


def tile(source, destination, shape, source_strides=(0, 0), destination_strides=(0, 0), **fields):
    """Fields of a body; addresses in words, strides (plane, row)."""
    planes, rows, columns = shape
    return {"source": {"offset": source - BASES[3], "base": 3},
            "destination": {"offset": destination - BASES[15], "base": 15},
            "columns": columns, "rows": rows, "planes": planes,
            "source_row_stride": source_strides[1], "source_plane_stride": source_strides[0],
            "destination_row_stride": destination_strides[1],
            "destination_plane_stride": destination_strides[0], "index": {"offset": 0, "base": 0}, **fields}


def golden(memories, die, operation, fields, fmt=FP32, transforms=()):
    """Run a task in the memories of both dies; returns how many words moved."""
    body = SimpleNamespace(**{"gather": 0, "scatter": 0, **fields, **{
        name: SimpleNamespace(**value) for name, value in fields.items() if isinstance(value, dict)}})
    other = DIES.index(fields["destination_die"]) if fields.get("remote") else die
    return transfer.move(TransferOperation(operation), memories[die], memories[other], body, BASES, fmt, transforms)


def run(parameters, tasks, *, seed=None, latency=6, availability=0.5, response_delay=6, floats=True, limit=12_000,
        index=None):
    """Run ``tasks`` (operation, fields) on each of both dies; the golden model takes die 0's first. Returns what is
    counted, and the memories, by die."""
    rng = np.random.default_rng(9)
    memories = [MemoryModel(parameters, WORDS) for _ in DIES]
    for memory in memories:
        if parameters.word_bits == 16:
            memory.words[:] = rng.integers(0, 1 << 16, WORDS) >> rng.integers(0, 3, WORDS)
        elif floats:
            memory.words[:] = rng.standard_normal(WORDS).astype(np.float32).view(np.uint32)
        else:
            memory.words[:] = rng.integers(0, 1 << 32, WORDS, dtype=np.uint64).astype(np.uint32)
        if index is not None:
            memory.words[:len(index)] = index
    expected = [memory.words.copy() for memory in memories]
    moved = [[golden(expected, die, operation, fields, parameters.memory_format, parameters.transforms)
              for operation, fields in mine] for die, mine in enumerate(tasks)]
    dut = Pair(parameters)
    results = [[], []]
    strobes = [[], []]
    advances = [[], []]

    def watch(die):
        async def bench(ctx):
            engine = getattr(dut, f"engine_{die}")
            gate = randomly(70 + die, 0.7) if seed is not None else None
            while True:
                *_, sample, fault = await ctx.tick().sample(engine.strobes, getattr(dut, f"fault_{die}").valid)
                assert not fault
                states = (sample.busy, sample.stall_input, sample.stall_output, sample.stall_memory)
                assert sum(states) <= 1
                strobes[die].append((*states, sample.words))
                if gate:
                    ctx.set(dut.gates[die], next(gate))
        return bench

    def counters(die):
        wanted = [fields["arrival"] for other, mine in enumerate(tasks) for _, fields in mine
                  if fields.get("arrival_enable")
                  and (DIES.index(fields["destination_die"]) if fields.get("remote") else other) == die]

        async def bench(ctx):
            advances[die] += await receive(ctx, getattr(dut, f"tile_advance_{die}"), len(wanted), randomly(4, 0.3))
            assert sorted(advances[die]) == sorted(wanted)
        return bench

    async def settle(ctx):
        while [len(one) for one in results] != [len(mine) for mine in tasks]:
            await ctx.tick()
        # What has been sent to the other die lands there.
        await ctx.tick().repeat(20 * latency + 20 * response_delay + 300)

    layout = parameters.body(Engine.TRANSFER)
    benches = [bench for die, mine in enumerate(tasks) for bench in run_tasks(
        getattr(dut, f"engine_{die}"), layout,
        [(operation, body_words(layout, fields)) for operation, fields in mine], BASES, results[die],
        lambda: randomly(5, 0.3))]
    background = [watch(0), watch(1)]
    for die, memory in enumerate(memories):
        background += memory.benches(
            [getattr(dut, f"{name}_{die}") for name in dut.names if name.endswith("read")],
            [getattr(dut, f"write_{die}")],
            seed=None if seed is None else seed + die, latency=latency, availability=availability,
            response_delay=response_delay)
    simulate(dut, *benches, counters(0), counters(1), settle, limit_cycles=limit, background=background)
    for die, mine in enumerate(tasks):
        assert (memories[die].words == expected[die]).all(), f"die {die}"
        counted = np.array(strobes[die]).sum(axis=0)
        assert [result.error for result in results[die]] == [ErrorCode.NONE] * len(mine)
        assert [result.payload_words for result in results[die]] == moved[die]
        assert counted[4] == sum(result.payload_words for result in results[die])
        assert counted[1:4].sum() == sum(result.stall_cycles for result in results[die])
    return strobes, memories


@pytest.mark.parametrize(("parameters", "operation"), [
    (TINY, COPY), pytest.param(WIDE, COPY, marks=pytest.mark.slow), pytest.param(WIDER, ADD, marks=pytest.mark.slow),
    (BROAD_TILES, ADD), pytest.param(BROAD, COPY, marks=pytest.mark.slow)])
def test_every_alignment(parameters, operation):
    """All pairs of source and destination lanes, with lengths round the beat; half of them on each die."""
    beat = parameters.beat_words
    fields = []
    for source in range(beat):
        for destination in range(beat):
            columns = (1, beat - 1, beat, beat + 1, 2 * beat, 2 * beat + 3)[(source + 3 * destination) % 6]
            fields.append((operation, tile(200 + source, HALF + destination, (1, 2, columns),
                                           (0, 5 * beat), (0, 4 * beat + 1))))
    run(parameters, [fields[::2], fields[1::2]])


def random_tasks(rng, parameters, die, count):
    """Tasks of one die: its own tiles lie in the lower half of the destination, the other's in the upper."""
    tasks = []
    quarter = HALF // 2
    for _ in range(count):
        planes, rows, columns = (int(rng.integers(1, high)) for high in (3, 7, 60))
        if rng.random() < 0.3:
            columns = int(rng.integers(1, 4))
        strides = []
        for _ in range(2):
            row = columns + int(rng.integers(0, 12)) * int(rng.integers(2))
            strides.append((rows * row + int(rng.integers(0, 12)), row))
        indexed = rng.choice(["none", "gather", "scatter"])
        rows = min(rows, 20)
        remote = int(rng.integers(2))
        target = HALF + die * quarter
        tasks.append((int(rng.choice([COPY, ADD])), tile(
            int(rng.integers(200, 1200)), int(rng.integers(target, target + 500)), (planes, rows, columns), *strides,
            gather=int(indexed == "gather"), scatter=int(indexed == "scatter"),
            index={"offset": int(rng.integers(0, 20)), "base": 0}, remote=remote,
            destination_die=DIES[1 - die] if remote else 0, arrival_enable=int(rng.integers(2)),
            arrival=int(rng.integers(parameters.counters)))))
    return tasks


@pytest.mark.parametrize(("parameters", "seed", "latency", "availability"), [
    (TINY, None, 1, 1), (FIXED, 4, 3, 0.8), *(pytest.param(*case, marks=pytest.mark.slow) for case in (
        (WIDE, None, 30, 1), (TINY, 1, 3, 0.5), (WIDE, 2, 9, 0.9), (WIDER, 3, 1, 0.4), (BROAD, 5, 9, 0.8)))])
def test_random(parameters, seed, latency, availability):
    """Both dies send to each other and to themselves at once; the row numbers repeat."""
    rng = np.random.default_rng(20 + latency)
    index = rng.integers(0, 9, 64)
    run(parameters, [random_tasks(rng, parameters, die, 8) for die in range(2)], seed=seed, latency=latency,
        availability=availability, response_delay=2 * latency, index=index)


@pytest.mark.parametrize("indexed", ["gather", "scatter"])
def test_lists_of_every_length(indexed):
    """Row numbers are read in pieces of 16, two of them ahead, and anew for each plane."""
    numbers = np.random.default_rng(8).permutation(64)
    tasks, target = [], HALF
    for rows in (1, 15, 16, 17, 31, 32, 33, 50):
        strides = [(70, 1), (2 * rows, 2)] if indexed == "gather" else [(2 * rows, 2), (130, 2)]
        tasks.append((COPY, tile(100, target, (2, rows, 1), *strides, **{indexed: 1})))
        target += 300
    run(TINY, [tasks, []], latency=9, index=numbers)


def test_words_are_stored_as_they_are():
    """Also those that are no canonical numbers."""
    run(WIDE, [[(COPY, tile(101, HALF + 3, (1, 1, 200), remote=1, destination_die=4))], []], floats=False)


@pytest.mark.slow
def test_adds_to_the_same_words_keep_their_order():
    """A scatter whose rows are all the same, then stores and adds to the same places, with slow memory."""
    index = np.array([5, 5, 5, 4, 5, 5, 4, 4, 5, 5], np.uint32)
    body = tile(300, HALF + 1, (1, 10, 7), (0, 7), (0, 3), scatter=1, remote=1, destination_die=4,
                arrival_enable=1, arrival=9)
    run(WIDE, [[(ADD, body), (COPY, tile(300, HALF + 20, (1, 1, 9), remote=1, destination_die=4)), (ADD, body)], []],
        latency=40, response_delay=60, index=index)


def test_adds_beside_each_other_do_not_wait():
    """Rows of one block that go down, with slow responses: one wait for the last response, not one a row."""
    body = tile(300, HALF, (1, 4, 3), (0, 7), (0, 4), scatter=1)
    strobes, _ = run(TINY, [[(ADD, body)], []], latency=4, response_delay=100, index=np.array([3, 2, 1, 0], np.uint32))
    assert np.array(strobes[0])[:, :4].sum() < 200


@pytest.mark.parametrize("parameters", [TINY, WIDE])
def test_rate(parameters):
    """A long aligned row: a flit a cycle but for start and end."""
    flits = 100
    words = flits * parameters.flit_words
    strobes, _ = run(parameters, [[(COPY, tile(208, HALF, (1, 1, words), remote=1, destination_die=4))], []],
                     latency=4, response_delay=4)
    counted = np.array(strobes[0]).sum(axis=0)
    assert counted[0] == flits
    assert counted[1:4].sum() < 40
    assert words % packet_words(parameters)


@pytest.mark.parametrize(("columns", "strides", "beats_read", "packets", "cycles", "remote"), [
    # Rows that follow each other in the source: a beat is read once, whatever lies in it.
    (1, (1, 20), 16, 128, 128, 1), (2, (2, 12), 32, 128, 128, 0), (3, (3, 16), 48, 128, 320, 1),
    # In the destination: a packet, and its beats, hold many.
    (1, (20, 1), 128, 4, 128, 0), (2, (8, 2), 128, 8, 128, 1),
    # In both, and in neither.
    (2, (2, 2), 32, 8, 128, 1), (2, (8, 10), 128, 128, 128, 0)])
@pytest.mark.slow
def test_narrow_rows(columns, strides, beats_read, packets, cycles, remote):
    """128 rows of a few words take a cycle each, or what their slots take, with a memory as slow as a die's."""
    source, destination = strides
    there = {"remote": 1, "destination_die": DIES[1]} if remote else {}
    strobes, memories = run(WIDE, [[(COPY, tile(200, HALF, (1, 128, columns), (0, source), (0, destination), **there))],
                                   []], latency=50, response_delay=20)
    counted = np.array(strobes[0])
    assert counted[:, :4].sum() <= cycles + 100
    assert sum(beats for _, _, beats in memories[0].reads) == beats_read
    assert len(memories[remote].writes) == packets


REFUSED = [
    ({"columns": 0}, COPY, ErrorCode.BAD_OPERAND), ({"rows": 0}, ADD, ErrorCode.BAD_OPERAND),
    ({"planes": 0}, COPY, ErrorCode.BAD_OPERAND), ({"gather": 1, "scatter": 1}, COPY, ErrorCode.BAD_OPERAND),
    ({"arrival_enable": 1, "arrival": TINY.counters}, COPY, ErrorCode.BAD_OPERAND),
    ({"remote": 1, "destination_die": 8}, COPY, ErrorCode.BAD_DIE), ({}, ADD + 1, ErrorCode.BAD_OPERATION)]
REFUSED_TRANSFORMS = [(NO_PLACES | changes, operation, error) for changes, operation, error in (
    ({"gather": 1}, TRANSFORM, ErrorCode.BAD_OPERAND), ({"scatter": 1}, TRANSFORM_ADD, ErrorCode.BAD_OPERAND),
    ({"down": 5}, TRANSFORM, ErrorCode.BAD_OPERAND), ({"across": 15}, TRANSFORM, ErrorCode.BAD_OPERAND),
    ({"rows": 0}, TRANSFORM, ErrorCode.BAD_OPERAND), ({}, TRANSFORM_ADD + 1, ErrorCode.BAD_OPERATION),
    ({"remote": 1, "destination_die": 8}, TRANSFORM, ErrorCode.BAD_DIE))]


@pytest.mark.parametrize(("parameters", "bad"), [(TINY, REFUSED), (TILES, REFUSED_TRANSFORMS)], ids=["tiny", "tiles"])
def test_refused(parameters, bad):
    """The memory is left alone, and the next task runs."""
    memory, layout = MemoryModel(parameters, WORDS), parameters.body(Engine.TRANSFER)
    memory.words[:] = np.arange(WORDS)
    expected, tasks = memory.words.copy(), []
    for place, (changes, operation, _) in enumerate(bad):
        good = tile(101, HALF + 2 + 16 * place, (1, 1, 5))
        golden([expected, expected], 0, COPY, good)
        tasks += [(operation, body_words(layout, {**good, **changes})), (COPY, body_words(layout, good))]
    dut = Pair(parameters)
    results = []
    simulate(dut, *run_tasks(dut.engine_0, layout, tasks, BASES, results), limit_cycles=2000 * len(bad),
             background=memory.benches([dut.read_0], [dut.write_0]))
    assert [result.error for result in results] == [found for *_, error in bad for found in (error, ErrorCode.NONE)]
    assert (memory.words == expected).all()


@pytest.mark.parametrize(("operation", "remote"), [(COPY, 0), (COPY, 1), (ADD, 1)])
def test_a_tile_beyond_the_memory_is_reported_and_taken(operation, remote):
    """By the die that it goes to, which knows its own ones, and other tiles still land."""
    memories = [MemoryModel(TINY, WORDS) for _ in DIES]
    dut = Pair(TINY)
    faults, results = [], []
    memories[0].words[101:201] = np.ones(100, np.float32).view(np.uint32)

    async def watch(ctx):
        while True:
            *_, fault = await ctx.tick().sample(getattr(dut, f"fault_{remote}"))
            if fault.valid:
                faults.append(fault.own)

    async def settle(ctx):
        await ctx.tick().repeat(600)

    there = {"remote": remote, "destination_die": DIES[1]}
    tasks = [tile(101, WORDS - 30, (1, 1, 60), **there), tile(150, HALF, (1, 1, 20), remote=1, destination_die=4)]
    if not remote:
        tasks.pop()
    given = [(operation, body_words(TransferBody, fields)) for fields in tasks]
    simulate(dut, *run_tasks(dut.engine_0, TransferBody, given, BASES, results)[:2 + remote], settle, limit_cycles=2000,
             background=[watch, *(bench for n, memory in enumerate(memories) for bench in memory.benches(
                 [getattr(dut, f"read_{n}"), getattr(dut, f"add_read_{n}")], [getattr(dut, f"write_{n}")]))])
    assert faults and set(faults) == {1 - remote}
    if remote:
        assert (memories[1].words[HALF:HALF + 20] == memories[0].words[150:170]).all()


@pytest.mark.parametrize(("fields", "match"), [
    (tile(WORDS - 4, HALF, (1, 1, 5)), r"words 8188\+5 lie outside"),
    ({**tile(200, HALF, (1, 3, 5)), "gather": 1, "index": {"offset": WORDS - 2, "base": 0}}, "words 8190")])
def test_golden_bounds(fields, match):
    with refused(IndexError, match):
        golden([np.zeros(WORDS, dtype=np.uint32)] * 2, 0, COPY, fields)


def test_bad_parameters():
    with refused(ValueError, "flit_words must be at most beat_words = 4, not 8"):
        TransferEngine(preset("ndp-tiny", flit_words=8))


def test_tiles_for_this_die_go_a_beat_a_cycle():
    """A map of 8 x 8 becomes tiles of F(2,3), a beat at each of their places."""
    pair, sides = form((3, 3), 2).lattices((8, 8), (1, 1))[0], (4, 4)
    channels = 2 * BROAD_TILES.beat_words
    places = 16 * 16 * channels // BROAD_TILES.beat_words
    body = {"source": {"offset": 200, "base": 3}, "destination": {"offset": 28, "base": 15}, "remote": 0,
            "index": {"offset": 0, "base": 0}, "destination_die": 0, "arrival_enable": 0, "arrival": 0, **NO_PLACES,
            "planes": 4, "rows": 4, "columns": channels, "down": 1, "across": 1,
            **of_map("source", pair, (8, 8), channels), **of_tiles("destination", sides, (4, 4), channels)}
    strobes, _ = run(BROAD_TILES, [[(TRANSFORM, body)], []], latency=6, availability=1)
    counted = np.array(strobes[0]).sum(axis=0)
    assert counted[0] == places
    assert counted[:4].sum() < 1.1 * places + 250


def test_flits_for_another_die_wait_behind_the_engine():
    """As many as there is room for leave it a beat a cycle; the link takes four times as long."""
    beats = BROAD.leaving_flits
    body = tile(200, HALF, (1, 1, beats * BROAD.beat_words), remote=1, destination_die=4, arrival_enable=1, arrival=3)
    strobes, _ = run(BROAD, [[(COPY, body)], []], latency=6, availability=1)
    assert np.array(strobes[0])[:, :4].sum() < 1.1 * beats + 60


@pytest.mark.parametrize(("parameters", "seed", "count"), [
    (TILES, None, 4), *(pytest.param(*case, marks=pytest.mark.slow) for case in (
        (NARROW_TILES, 1, 2), (BROAD_TILES, 3, 2), (HALF_BEAT_TILES, 4, 2))),
    pytest.param(LARGE_TILES, 2, 4, marks=pytest.mark.long)])
def test_transforms(parameters, seed, count) -> None:
    """Of both dies, between other tasks, here and to the other one, with arrivals."""
    rng = np.random.default_rng(20 if seed is None else seed)
    tasks = []
    for die in range(2):
        mine = []
        for _ in range(count):
            remote = int(rng.integers(2))
            mine.append((int(rng.choice([TRANSFORM, TRANSFORM_ADD])), {
                "source": {"offset": int(rng.integers(100, 300)), "base": 3}, "remote": remote,
                "destination": {"offset": 28 + die * HALF // 2 + int(rng.integers(20)), "base": 15},
                "index": {"offset": 0, "base": 0}, "destination_die": DIES[1 - die] if remote else 0,
                "arrival_enable": int(rng.integers(2)), "arrival": int(rng.integers(parameters.counters)),
                **NO_PLACES, **random_transform(rng, parameters.transforms, 6, 11, HALF // 2 - 20)}))
        others = random_tasks(rng, parameters, die, 2)
        tasks.append([mine[0], others[0], *mine[1:], others[1]])
    run(parameters, tasks, seed=seed, limit=60_000, index=list(range(40)))
