"""Transfer engine against the golden copy, over alignments, shapes and stalls."""

from types import SimpleNamespace

import numpy as np
import pytest
from tests.support.amaranth_sim import randomly, simulate
from tests.support.engine_bench import body_words, run_tasks
from tests.support.memory_model import MemoryModel
from tests.support.refusal import refused

from plinth_hw.isa.parameters import preset
from plinth_hw.isa.tasks import ErrorCode, TransferBody, TransferOperation
from plinth_hw.memory.transfer import TransferEngine
from plinth_sim.golden import transfer

PARAMETERS = preset("ndp-tiny")
B = PARAMETERS.beat_words
WORDS = 1 << 14
HALF = WORDS // 2
BASES = [0] * 16
BASES[3], BASES[15] = 100, HALF - 28
COPY = TransferOperation.COPY.value


def _body(source, destination, shape, source_strides, destination_strides):
    """Fields of a body; addresses in words, strides (plane, row)."""
    planes, rows, columns = shape
    return {"source": {"offset": source - BASES[3], "base": 3},
            "destination": {"offset": destination - BASES[15], "base": 15},
            "columns": columns, "rows": rows, "planes": planes,
            "source_row_stride": source_strides[1], "source_plane_stride": source_strides[0],
            "destination_row_stride": destination_strides[1],
            "destination_plane_stride": destination_strides[0]}


def _golden(words, fields):
    body = SimpleNamespace(**{**fields, "source": SimpleNamespace(**fields["source"]),
                              "destination": SimpleNamespace(**fields["destination"])})
    transfer.copy(words, body, BASES)


def _random_body(rng):
    planes, rows, columns = (int(rng.integers(1, high)) for high in (4, 6, 45))
    strides = []
    for _ in range(2):
        row = columns + int(rng.integers(0, 12))
        strides.append((rows * row + int(rng.integers(0, 12)), row))
    room = 3 * 6 * 60
    return _body(int(rng.integers(100, HALF - room)), HALF + int(rng.integers(0, HALF - room)),
                 (planes, rows, columns), *strides)


def _run(fields, seed=None, latency=6, availability=0.5, response_delay=6):
    rng = np.random.default_rng(9)
    memory = MemoryModel(PARAMETERS, WORDS)
    memory.words[:] = rng.integers(0, 1 << 32, WORDS, dtype=np.uint64).astype(np.uint32)
    expected = memory.words.copy()
    for body in fields:
        _golden(expected, body)
    dut = TransferEngine(PARAMETERS)
    results, strobes = [], []

    async def watch(ctx):
        while True:
            *_, sample = await ctx.tick().sample(dut.engine.strobes)
            states = (sample.busy, sample.stall_input, sample.stall_output, sample.stall_memory)
            assert sum(states) <= 1
            strobes.append((*states, sample.words))

    simulate(dut, *run_tasks(dut.engine, [(COPY, body_words(TransferBody, body)) for body in fields], BASES,
                             results, lambda: randomly(5, 0.3)),
             limit_cycles=60_000, background=[watch, *memory.benches(
                 [dut.read], [dut.write], seed=seed, latency=latency, availability=availability,
                 response_delay=response_delay)])
    assert (memory.words == expected).all()
    counted = np.array(strobes).sum(axis=0)
    assert [result.error for result in results] == [ErrorCode.NONE] * len(fields)
    assert [result.payload_words for result in results] == [
        body["planes"] * body["rows"] * body["columns"] for body in fields]
    assert counted[4] == sum(result.payload_words for result in results)
    assert counted[1:4].sum() == sum(result.stall_cycles for result in results)
    return counted, results


def test_every_alignment():
    """All pairs of source and destination lanes, with lengths round the beat."""
    fields = []
    for source in range(B):
        for destination in range(B):
            columns = (1, B - 1, B, B + 1, 2 * B, 2 * B + 3)[(source + 3 * destination) % 6]
            fields.append(_body(200 + source, HALF + destination, (1, 2, columns),
                                (0, 5 * B), (0, 4 * B + 1)))
    _run(fields)


@pytest.mark.parametrize(("seed", "latency", "availability"), [
    (None, 1, 1), (None, 25, 1), (1, 3, 0.5), (2, 9, 0.9), (3, 1, 0.25)])
def test_random(seed, latency, availability):
    rng = np.random.default_rng(20 + latency)
    _run([_random_body(rng) for _ in range(12)], seed, latency, availability, 2 * latency)


def test_rate():
    """A long aligned row: a beat a cycle but for start and end."""
    counted, _ = _run([_body(208, HALF, (1, 1, 200 * B), (0, 0), (0, 0))], latency=4, response_delay=4)
    assert counted[0] == 200
    assert counted[1:4].sum() < 40


@pytest.mark.parametrize("zero", ["columns", "rows", "planes"])
def test_bad_operand(zero):
    """A zero size is refused, the memory is left alone, and the next task runs."""
    memory = MemoryModel(PARAMETERS, WORDS)
    memory.words[:] = np.arange(WORDS)
    good = _body(101, HALF + 2, (1, 1, 5), (0, 0), (0, 0))
    bad = {**good, zero: 0}
    expected = memory.words.copy()
    with pytest.raises(transfer.BadOperandError, match="not"):
        _golden(expected, bad)
    _golden(expected, good)
    dut = TransferEngine(PARAMETERS)
    results = []
    tasks = [(COPY, body_words(TransferBody, bad)), (COPY + 1, body_words(TransferBody, good)),
             (COPY, body_words(TransferBody, good))]
    simulate(dut, *run_tasks(dut.engine, tasks, BASES, results), limit_cycles=2000,
             background=memory.benches([dut.read], [dut.write]))
    assert [result.error for result in results] == [
        ErrorCode.BAD_OPERAND, ErrorCode.BAD_OPERATION, ErrorCode.NONE]
    assert (memory.words == expected).all()


def test_golden_bounds():
    words = np.zeros(64, dtype=np.uint32)
    fields = {**_body(100, HALF, (1, 1, 5), (0, 0), (0, 0))}
    with pytest.raises(IndexError, match="outside"):
        _golden(words, fields)


def test_bad_parameters():
    with refused(ValueError, "not 4"):
        TransferEngine(PARAMETERS, 4)
