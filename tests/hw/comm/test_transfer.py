"""Transfer engines of two dies against the golden model: alignments, shapes, indices, adds, stalls."""

from collections.abc import Sequence
from functools import cache
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.support.engine_bench import body_words
from tests.support.refusal import refused
from tests.support.transforms import of_map, of_tiles, random_transform
from tests.support.verilated_engine import Outcome, VerilatedTransfer

from plinth_hw.comm.run_reader import packet_words
from plinth_hw.comm.transfer import TransferEngine
from plinth_hw.isa.formats import FP32, Q3_12, Format, word_type
from plinth_hw.isa.operations import ErrorCode, TransferOperation
from plinth_hw.isa.parameters import DieParameters, preset
from plinth_hw.isa.transfer_bodies import TransferBody, TransformBody
from plinth_hw.isa.winograd import form
from plinth_sim.golden import transfer

PARAMETERS = {
    "tiny": preset("ndp-tiny", chunk_words=16),
    # Two and four words a flit, so that flits are cut and turned.
    "wide": preset("ndp-demo", chunk_words=32),
    "wider": preset("ndp-demo", chunk_words=16, flit_words=4),
    # Words of 16 bits.
    "fixed": preset("ndp-demo", chunk_words=32, multiply_format=Q3_12),
    # With transforms, a word a flit; two, and with longer lines.
    "tiles": preset("ndp-tiny", chunk_words=16, transforms=((2, 3),)),
    "large tiles": preset("ndp-demo", chunk_words=64, transforms=((4, 3), (2, 5))),
    # Words of several flits a cycle within the die: of a beat, and of half a one.
    "broad": preset("ndp-demo", chunk_words=32, transfer_words=8),
    "broad tiles": preset("ndp-tiny", chunk_words=16, transforms=((2, 3), (4, 3)), transfer_words=4),
    "half-beat tiles": preset("ndp-demo", chunk_words=64, transforms=((2, 3),), transfer_words=4),
}
#: Builds of the quick tests.
QUICK = ("tiny", "wide", "broad tiles")
#: Fields of a body that transforms where it says nothing of them.
NO_PLACES = {name: 0 for name in TransformBody.FIELDS if name not in TransferBody.FIELDS}
WORDS = 1 << 13
HALF, QUARTER = WORDS // 2, WORDS // 4
BASES = [0] * 16
BASES[3], BASES[15] = 100, HALF - 28
COPY, ADD, TRANSFORM, TRANSFORM_ADD, *_ = (operation.value for operation in TransferOperation)
#: Numbers of the two dies.
DIES = VerilatedTransfer.DIES
#: Rounds of random tasks a build, and tasks of each die in a round.
ROUNDS, TASKS = 12, 40

Fields = dict[str, Any]
Tasks = Sequence[Sequence[tuple[int, Fields]]]


def build(name: str, *values: Any) -> Any:
    """Parameters of a test on a build: one worker runs all tests of a build."""
    marks = [pytest.mark.xdist_group(f"transfers-{name}")]
    if name not in QUICK:
        marks.append(pytest.mark.slow)
    return pytest.param(name, *values, marks=marks)


@cache
def engine(name: str) -> VerilatedTransfer:
    return VerilatedTransfer(PARAMETERS[name])


def tile(source: int, destination: int, shape: tuple[int, int, int], source_strides: tuple[int, int] = (0, 0),
         destination_strides: tuple[int, int] = (0, 0), **fields: Any) -> Fields:
    """Fields of a body; addresses in words, strides (plane, row)."""
    planes, rows, columns = shape
    return {"source": {"offset": source - BASES[3], "base": 3},
            "destination": {"offset": destination - BASES[15], "base": 15},
            "columns": columns, "rows": rows, "planes": planes,
            "source_row_stride": source_strides[1], "source_plane_stride": source_strides[0],
            "destination_row_stride": destination_strides[1],
            "destination_plane_stride": destination_strides[0], "index": {"offset": 0, "base": 0}, **fields}


def to_other(die: int = 0) -> Fields:
    """Fields of a tile that goes to the other die."""
    return {"remote": 1, "destination_die": DIES[1 - die]}


def golden(memories: Sequence[Any], die: int, operation: int, fields: Fields, fmt: Format = FP32,
           transforms: Any = ()) -> int:
    """Run a task in the memories of both dies; returns how many words moved."""
    body = SimpleNamespace(**{"gather": 0, "scatter": 0, **fields, **{
        name: SimpleNamespace(**value) for name, value in fields.items() if isinstance(value, dict)}})
    return transfer.move(TransferOperation(operation), memories[die], memories[target_die(die, fields)], body, BASES,
                         fmt, transforms)


def target_die(die: int, fields: Fields) -> int:
    """The die that a tile of a die goes to."""
    return DIES.index(fields["destination_die"]) if fields.get("remote") else die


def packed(pair: VerilatedTransfer, tasks: Tasks) -> list[list[tuple[int, list[int]]]]:
    """Operations and body words of each die's tasks."""
    return [[(operation, body_words(pair.layout, fields)) for operation, fields in listed] for listed in tasks]


def run(pair: VerilatedTransfer, tasks: Tasks, *, floats: bool = True, index: Any = (), **settings: Any
        ) -> list[Outcome]:
    """Run ``tasks`` (operation, fields) on each of both dies; the golden model takes the first one's first. Compares
    memories, arrivals and what is counted."""
    parameters, rng = pair.parameters, np.random.default_rng(settings.get("seed", 1))
    words: Any = rng.integers(0, 1 << 32, (2, WORDS), dtype=np.uint32)
    if parameters.word_bits == 16:
        words = words & 0xFFFF >> rng.integers(0, 3, words.shape)
    elif floats:
        words = rng.standard_normal(words.shape).astype(np.float32).view(np.uint32)
    memories = words.astype(word_type(parameters.memory_format))
    memories[:, :len(index)] = index
    expected = memories.copy()
    moved = [[golden(expected, die, operation, fields, parameters.memory_format, parameters.transforms)
              for operation, fields in listed] for die, listed in enumerate(tasks)]
    outcomes = pair.run_pair(packed(pair, tasks), BASES, memories, **settings)
    arrivals = np.zeros((2, parameters.counters), dtype=np.uint64)
    for die, listed in enumerate(tasks):
        for _, fields in listed:
            if fields.get("arrival_enable"):
                arrivals[target_die(die, fields), fields["arrival"]] += 1
    for die, outcome in enumerate(outcomes):
        np.testing.assert_array_equal(memories[die], expected[die], f"memory of die {die}")
        np.testing.assert_array_equal(outcome.arrivals, arrivals[die], f"arrivals of die {die}")
        assert (outcome.faults, outcome.own_faults) == (0, 0)
        assert [done.error for done in outcome.done] == [ErrorCode.NONE] * len(tasks[die])
        assert [done.payload_words for done in outcome.done] == moved[die]
        assert outcome.words == sum(moved[die])
        assert outcome.stalls == sum(done.stall_cycles for done in outcome.done)
    return outcomes


def handshakes(rng: np.random.Generator, number: int) -> dict[str, Any]:
    """Settings of a run: memory that is fast or slow to read, or to answer writes, and links that are."""
    if number == 0:
        return {"latency": 1, "response_delay": 1}
    return {"seed": number, "latency": int(rng.choice([1, 3, 9, 30])),
            "response_delay": int(rng.choice([1, 6, 18, 60, 130])),
            "availability": float(rng.choice([0.3, 0.5, 0.9, 1])), "gate": float(rng.choice([0.2, 0.7, 1]))}


@pytest.mark.parametrize("name", [build(name) for name in PARAMETERS])
def test_every_alignment(name: str) -> None:
    """All pairs of source and destination lanes, with lengths round the beat; half of them on each die."""
    beat = PARAMETERS[name].beat_words
    for operation, remote in product((COPY, ADD), (False, True)):
        tasks: list[list[tuple[int, Fields]]] = [[], []]
        for source, destination in product(range(beat), repeat=2):
            columns = (1, beat - 1, beat, beat + 1, 2 * beat, 2 * beat + 3)[(source + 3 * destination) % 6]
            die = (source * beat + destination) % 2
            tasks[die].append((operation, tile(
                200 + source, HALF + die * QUARTER + destination, (1, 2, columns), (0, 5 * beat), (0, 4 * beat + 1),
                **(to_other(die) if remote else {}))))
        run(engine(name), tasks)


def random_tile(rng: np.random.Generator) -> Fields:
    """Fields of a tile without addresses: rows that are long, or many short ones, with gaps or without."""
    planes, rows, columns = (int(rng.integers(1, high)) for high in (3, 7, 60))
    if rng.random() < 0.3:
        rows, columns = int(rng.integers(1, 40)), int(rng.integers(1, 4))
    strides = []
    for _ in range(2):
        row = columns + int(rng.integers(0, 12)) * int(rng.integers(2))
        strides.append((rows * row + int(rng.integers(0, 12)), row))
    indexed = rng.choice(["none", "gather", "scatter"])
    return tile(0, 0, (planes, rows, columns), *strides, gather=int(indexed == "gather"),
                scatter=int(indexed == "scatter"), index={"offset": int(rng.integers(0, 20)), "base": 0})


def random_tasks(rng: np.random.Generator, parameters: DieParameters, die: int, count: int
                 ) -> list[tuple[int, Fields]]:
    """Tasks of one die, of which dies with transforms transform in half. Its tiles go to a quarter of either memory
    that is its own; what it sends comes from the lower half, or from its quarter, where its tasks before left it."""
    tasks = []
    for _ in range(count):
        transforms = bool(parameters.transforms) and rng.random() < 0.5
        operation = rng.choice([TRANSFORM, TRANSFORM_ADD] if transforms else [COPY, ADD])
        # Tiles of a transform fill most of a quarter.
        most = 20 if transforms else 500
        fields = NO_PLACES | random_transform(rng, parameters.transforms, 6, 11, QUARTER - most) if (
            transforms) else random_tile(rng)
        remote = bool(rng.integers(2))
        own = HALF + die * QUARTER
        source = own + int(rng.integers(most)) if remote and rng.integers(2) else int(rng.integers(200, 1200))
        tasks.append((int(operation), {
            "index": {"offset": 0, "base": 0}, **fields, "source": {"offset": source - BASES[3], "base": 3},
            "destination": {"offset": own + int(rng.integers(most)) - BASES[15], "base": 15},
            "arrival_enable": int(rng.integers(2)), "arrival": int(rng.integers(parameters.counters)),
            **(to_other(die) if remote else {"remote": 0, "destination_die": 0})}))
    return tasks


@pytest.mark.parametrize("name", [build(name) for name in PARAMETERS])
def test_random(name: str) -> None:
    """Both dies send to each other and to themselves at once; the row numbers repeat."""
    for number in range(ROUNDS):
        rng = np.random.default_rng(20 + number)
        tasks = [random_tasks(rng, PARAMETERS[name], die, TASKS) for die in range(2)]
        run(engine(name), tasks, index=rng.integers(0, 9, 64), **handshakes(rng, number))


@pytest.mark.parametrize("indexed", ["gather", "scatter"])
@pytest.mark.parametrize("name", [build("tiny")])
def test_lists_of_every_length(name: str, indexed: str) -> None:
    """Row numbers are read in pieces of 16, two of them ahead, and anew for each plane."""
    numbers = np.random.default_rng(8).permutation(64)
    tasks, target = [], HALF
    for rows in (1, 15, 16, 17, 31, 32, 33, 50):
        strides = [(70, 1), (2 * rows, 2)] if indexed == "gather" else [(2 * rows, 2), (130, 2)]
        tasks.append((COPY, tile(100, target, (2, rows, 1), *strides, **{indexed: 1})))
        target += 300
    run(engine(name), [tasks, []], latency=9, index=numbers)


@pytest.mark.parametrize("name", [build("wide")])
def test_words_are_stored_as_they_are(name: str) -> None:
    """Also those that are no canonical numbers."""
    run(engine(name), [[(COPY, tile(101, HALF + 3, (1, 1, 200), **to_other()))], []], floats=False)


@pytest.mark.parametrize("name", [build("wide")])
def test_adds_to_the_same_words_keep_their_order(name: str) -> None:
    """A scatter whose rows are all the same, then stores and adds to the same places, with slow memory."""
    index = np.array([5, 5, 5, 4, 5, 5, 4, 4, 5, 5], np.uint32)
    body = tile(300, HALF + 1, (1, 10, 7), (0, 7), (0, 3), scatter=1, arrival_enable=1, arrival=9, **to_other())
    run(engine(name), [[(ADD, body), (COPY, tile(300, HALF + 20, (1, 1, 9), **to_other())), (ADD, body)], []],
        latency=40, response_delay=60, index=index)


@pytest.mark.parametrize("name", [build("tiny")])
def test_adds_beside_each_other_do_not_wait(name: str) -> None:
    """Rows of one block that go down, with slow responses: one wait for the last response, not one a row."""
    body = tile(300, HALF, (1, 4, 3), (0, 7), (0, 4), scatter=1)
    outcome, _ = run(engine(name), [[(ADD, body)], []], latency=4, response_delay=100,
                     index=np.array([3, 2, 1, 0], np.uint32))
    assert outcome.busy + outcome.stalls < 200


@pytest.mark.parametrize("name", [build("tiny"), build("wide")])
def test_rate(name: str) -> None:
    """A long aligned row: a flit a cycle but for start and end."""
    flits = 100
    words = flits * PARAMETERS[name].flit_words
    outcome, _ = run(engine(name), [[(COPY, tile(208, HALF, (1, 1, words), **to_other()))], []], latency=4,
                     response_delay=4)
    assert outcome.busy == flits
    assert outcome.stalls < 40
    assert words % packet_words(PARAMETERS[name])


@pytest.mark.parametrize(("name", "columns", "strides", "beats_read", "packets", "cycles", "remote"), [
    build("wide", *case) for case in (
        # Rows that follow each other in the source: a beat is read once, whatever lies in it.
        (1, (1, 20), 16, 128, 128, 1), (2, (2, 12), 32, 128, 128, 0), (3, (3, 16), 48, 128, 320, 1),
        # In the destination: a packet, and its beats, hold many.
        (1, (20, 1), 128, 4, 128, 0), (2, (8, 2), 128, 8, 128, 1),
        # In both, and in neither.
        (2, (2, 2), 32, 8, 128, 1), (2, (8, 10), 128, 128, 128, 0))])
def test_narrow_rows(name: str, columns: int, strides: tuple[int, int], beats_read: int, packets: int, cycles: int,
                     remote: int) -> None:
    """128 rows of a few words take a cycle each, or what their slots take, with a memory as slow as a die's."""
    source, destination = strides
    body = tile(200, HALF, (1, 128, columns), (0, source), (0, destination), **(to_other() if remote else {}))
    outcomes = run(engine(name), [[(COPY, body)], []], latency=50, response_delay=20)
    assert outcomes[0].busy + outcomes[0].stalls <= cycles + 102
    assert outcomes[0].beats["read"] == beats_read
    assert outcomes[remote].requests["write"] == packets


REFUSED = [
    ({"columns": 0}, COPY, ErrorCode.BAD_OPERAND), ({"rows": 0}, ADD, ErrorCode.BAD_OPERAND),
    ({"planes": 0}, COPY, ErrorCode.BAD_OPERAND), ({"gather": 1, "scatter": 1}, COPY, ErrorCode.BAD_OPERAND),
    ({"arrival_enable": 1, "arrival": PARAMETERS["tiny"].counters}, COPY, ErrorCode.BAD_OPERAND),
    *(({"remote": 1, "destination_die": die}, COPY, ErrorCode.BAD_DIE) for die in (DIES[1] + 1, 8)),
    ({}, ADD + 1, ErrorCode.BAD_OPERATION)]
REFUSED_TRANSFORMS = [(NO_PLACES | changes, operation, error) for changes, operation, error in (
    ({"gather": 1}, TRANSFORM, ErrorCode.BAD_OPERAND), ({"scatter": 1}, TRANSFORM_ADD, ErrorCode.BAD_OPERAND),
    ({"down": 9}, TRANSFORM, ErrorCode.BAD_OPERAND), ({"across": 15}, TRANSFORM, ErrorCode.BAD_OPERAND),
    ({"rows": 0}, TRANSFORM, ErrorCode.BAD_OPERAND), ({}, TRANSFORM_ADD + 1, ErrorCode.BAD_OPERATION),
    *(({"remote": 1, "destination_die": die}, TRANSFORM, ErrorCode.BAD_DIE) for die in (DIES[1] + 1, 8)))]


@pytest.mark.parametrize(("name", "bad"), [build("tiny", REFUSED), build("broad tiles", REFUSED_TRANSFORMS)])
def test_refused(name: str, bad: Any) -> None:
    """The memory is left alone, and the next task runs."""
    memories = np.tile(np.arange(WORDS, dtype=np.uint32), (2, 1))
    expected, tasks = memories.copy(), []
    for place, (changes, operation, _) in enumerate(bad):
        good = tile(101, HALF + 2 + 16 * place, (1, 1, 5))
        golden(expected, 0, COPY, good)
        tasks += [(operation, {**good, **changes}), (COPY, good)]
    outcomes = engine(name).run_pair(packed(engine(name), [tasks, []]), BASES, memories)
    assert [done.error for done in outcomes[0].done] == [code for *_, error in bad for code in (error, ErrorCode.NONE)]
    np.testing.assert_array_equal(memories, expected)
    assert not any(outcome.arrivals.any() for outcome in outcomes)


@pytest.mark.parametrize(("operation", "remote"), [(COPY, 0), (COPY, 1), (ADD, 1)])
@pytest.mark.parametrize("inside", [30, 1, 0])
@pytest.mark.parametrize("name", [build(name) for name in PARAMETERS])
def test_a_tile_beyond_the_memory_is_reported_and_taken(name: str, inside: int, operation: int, remote: int) -> None:
    """By the die that it goes to, which knows its own ones, and other tiles still land: one up to the last word as
    well."""
    memories = np.zeros((2, WORDS), dtype=engine(name).word_type)
    memories[0, 101:201] = np.arange(100)
    there = to_other() if remote else {}
    beyond = max(1, inside)
    tasks = [(operation, tile(101, WORDS - inside, (1, 1, inside + beyond), **there))]
    if remote:
        tasks += [(COPY, tile(150, HALF, (1, 1, 20), **there)), (COPY, tile(160, WORDS - 37, (1, 1, 37), **there))]
    # A task whose own tile is out of range is never done.
    outcomes = engine(name).run_pair(packed(engine(name), [tasks, []]), BASES, memories, cycles=1500)
    assert [len(outcome.done) for outcome in outcomes] == [len(tasks) * remote, 0]
    packets = -(-beyond // packet_words(PARAMETERS[name]))
    assert [(outcome.faults, outcome.own_faults) for outcome in outcomes] == [
        (0, packets * (1 - remote)), (packets * remote, 0)]
    if remote:
        np.testing.assert_array_equal(memories[1, HALF:HALF + 20], memories[0, 150:170])
        np.testing.assert_array_equal(memories[1, WORDS - 37:], memories[0, 160:197])


@pytest.mark.parametrize("name", [build(name) for name in PARAMETERS])
def test_nothing_is_told_before_memory_answers(name: str) -> None:
    """Tiles are there, but writes are not answered: no counter has advanced, and the task for this die runs. One for
    the other die is done."""
    memories = np.zeros((2, WORDS), dtype=engine(name).word_type)
    memories[:, 101:201] = np.arange(100)
    expected = memories.copy()
    arrival = {"arrival_enable": 1, "arrival": 5}
    tasks = [[(COPY, tile(101, HALF, (1, 1, 60), **to_other(), **arrival))],
             [(COPY, tile(120, HALF + QUARTER, (1, 1, 60), **arrival))]]
    for die, ((operation, fields),) in enumerate(tasks):
        golden(expected, die, operation, fields)
    outcomes = engine(name).run_pair(packed(engine(name), tasks), BASES, memories, response_delay=1000, cycles=600)
    np.testing.assert_array_equal(memories, expected)
    assert [len(outcome.done) for outcome in outcomes] == [1, 0]
    assert not any(outcome.arrivals.any() for outcome in outcomes)
    assert outcomes[1].stall_memory > 300 and outcomes[0].stall_memory < 10


@pytest.mark.parametrize("name", [build("tiny"), build("wide")])
def test_stalls_are_named_after_what_is_waited_for(name: str) -> None:
    """Slow links stall the output, slow memory the input."""
    tasks = [[(COPY, tile(208, HALF, (1, 1, 600), **to_other()))], []]
    links, _ = run(engine(name), tasks, gate=0.2)
    assert links.stall_output > 600 and links.stall_input < 60
    memory, _ = run(engine(name), tasks, latency=200)
    assert memory.stall_input > 200 and not memory.stall_output


@pytest.mark.parametrize(("fields", "match"), [
    (tile(WORDS - 4, HALF, (1, 1, 5)), r"words 8188\+5 lie outside"),
    ({**tile(200, HALF, (1, 3, 5)), "gather": 1, "index": {"offset": WORDS - 2, "base": 0}}, "words 8190")])
def test_golden_bounds(fields: Fields, match: str) -> None:
    with refused(IndexError, match):
        golden([np.zeros(WORDS, dtype=np.uint32)] * 2, 0, COPY, fields)


def test_bad_parameters() -> None:
    with refused(ValueError, "flit_words must be at most beat_words = 4, not 8"):
        TransferEngine(preset("ndp-tiny", flit_words=8))


@pytest.mark.parametrize("name", [build("broad tiles")])
def test_tiles_for_this_die_go_a_beat_a_cycle(name: str) -> None:
    """A map of 8 x 8 becomes tiles of F(2,3), a beat at each of their places."""
    beat = PARAMETERS[name].beat_words
    pair, sides = form((3, 3), 2).lattices((8, 8), (1, 1))[0], (4, 4)
    channels = 2 * beat
    places = 16 * 16 * channels // beat
    body = {"source": {"offset": 200, "base": 3}, "destination": {"offset": 28, "base": 15}, "remote": 0,
            "index": {"offset": 0, "base": 0}, "destination_die": 0, "arrival_enable": 0, "arrival": 0, **NO_PLACES,
            "planes": 4, "rows": 4, "columns": channels, "down": 1, "across": 1,
            **of_map("source", pair, (8, 8), channels), **of_tiles("destination", sides, (4, 4), channels)}
    outcome, _ = run(engine(name), [[(TRANSFORM, body)], []])
    assert outcome.busy == places
    assert outcome.busy + outcome.stalls < 1.1 * places + 250


@pytest.mark.parametrize("name", [build("broad")])
def test_flits_for_another_die_wait_behind_the_engine(name: str) -> None:
    """As many as there is room for leave it a beat a cycle; the link takes four times as long."""
    parameters = PARAMETERS[name]
    beats = parameters.leaving_flits
    body = tile(200, HALF, (1, 1, beats * parameters.beat_words), arrival_enable=1, arrival=3, **to_other())
    outcome, _ = run(engine(name), [[(COPY, body)], []])
    assert outcome.busy + outcome.stalls < 1.1 * beats + 60
