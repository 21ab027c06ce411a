"""Steps walked through task by task: what engines and dies wait for."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from plinth.array.array import Array, full, ring, torus
from plinth.bench.steps import hybrid_speedup
from plinth.machine.control import CONTROL
from plinth.machine.copies import ADD_CYCLES, ADD_PACKETS, INDEXED_CYCLES, Copy
from plinth.machine.die import DieCycles, machine
from plinth.machine.memory import MEMORY_LATENCY
from plinth.network.layers import Dense, Embedding, Shape, SoftmaxCrossEntropy
from plinth.network.network import Network
from plinth.network.zoo import NETWORKS
from plinth.partition.axes import Region, plane
from plinth.partition.exchanges import ExchangeFlow
from plinth.partition.graph import PlanGraph, from_network
from plinth.predict.engines import DieEngines, Moved, Taken
from plinth.predict.links import Links
from plinth.predict.schedule import Times, _ScheduleWalk
from plinth.predict.time import StepTime
from plinth.step.between import Barrier, Reduce
from plinth_hw.comm.receive_path import BLOCKS
from plinth_hw.comm.run_reader import packet_words
from plinth_hw.isa.parameters import preset

CNN = from_network(NETWORKS["digits-cnn"])
#: Of tasks that do nothing to memory.
NOTHING = Moved(0, 0)


def step_time(dies: int = 4, die: DieCycles | None = None, **settings: object) -> StepTime:
    return StepTime(CNN, 128, ring(dies, **settings), die)


def plan(levels: int, *splits: str) -> tuple[tuple[str, ...], ...]:
    return (*((split,) * levels for split in splits), ("dp",) * levels)


def test_tasks_wait_for_descriptors_for_what_they_read_and_for_each_other() -> None:
    die = DieEngines(machine(preset("ndp-demo")), (), 1.0)
    first = die.task("matrix", 0, (1000, 700), NOTHING)
    assert first >= die.period + die.body["matrix"] + 1000
    assert die.task("matrix", 0, (1000, 700), NOTHING) == first + 700
    assert die.task("matrix", 50_000, (1000, 700), NOTHING) == 50_000 + die.issue + 1000
    assert die.vector(60_000, (100, 200, 50), NOTHING) == 60_000 + die.issue + 350
    # The next one loads while this one computes.
    assert die.vector(60_000, (100, 200, 50), NOTHING) == 60_000 + die.issue + 550
    # Two blocks share the links; a block ends a message before it begins the next.
    for block, ends in ((0, 1300), (1, 2300), (1, 3600)):
        die.reduce(80_000, 1000, 300, NOTHING, block)
        assert die.reduced == 80_000 + die.issue + ends
    for _ in range(20):
        die.task("transfer", 100_000, (10, 10), NOTHING)
    assert die.fetched > 100_000


def test_tiles_and_reductions_take_turns_on_links() -> None:
    die = DieEngines(machine(preset("ndp-demo")), (), 1.0)
    for block in range(2):
        die.reduce(1000 - die.issue, 1000, 300, NOTHING, block)

    def tile(start: float, end: float) -> float:
        return die.tiles(start - die.issue, (end - start, end - start), NOTHING, 1, end - start)

    die.reduce(40_000, 1000, 300, NOTHING, 0, linked=False)
    # 200 of a tile beside the first of them, which the second waits for; one beside the rest of the second.
    assert [tile(800, 1200), die.reductions[0]] == [1400, (1000, 3200, 300)]
    assert [tile(2000, 9000), die.reductions[0]] == [10_200, (1000, 4400, 300)]
    # The last reduction is not on the links.
    end = die.last["collective"]
    assert [tile(40_000, 45_000), die.last["collective"], die.reduced] == [45_000, end, end + 300]


def test_the_engine_goes_on_while_routers_hold_what_the_links_have_not_taken() -> None:
    die = DieEngines(machine(preset("ndp-demo")), (), 1.0)

    def tile(start: float, lane: int) -> float:
        """200 cycles of work, 1000 on the links, of which routers hold 600."""
        return die.tiles(start - die.issue, (250, 250), NOTHING, 1, 1000, lane, 600, 50)

    assert tile(10_000, 1) == 11_050 and die.last["transfer"] == 10_450
    # Behind the first on its links, and beside it on others; an idle engine waits for nobody.
    assert tile(10_500, 1) == 12_050 and die.last["transfer"] == 11_450
    assert tile(11_500, 2) == 12_550 and die.last["transfer"] == 11_950
    assert tile(20_000, 1) == 21_050 and die.last["transfer"] == 20_450


def test_turns_that_share_links_are_of_one_lane() -> None:
    def lanes(array: Array) -> list[int]:
        return Links(array)._lanes[1:]

    assert lanes(ring(4)) == [1, 1, 3] and lanes(ring(8)) == [1, 1, 1, 1, 5, 5, 5]
    # Of more dies than are told apart nobody asks.
    assert StepTime(CNN, 128, ring(64)).cycles(plan(6, "dp", "dp", "op", "mp")) > 0
    assert lanes(full(4)) == [1, 2, 3] and lanes(torus(2, 3)) == [1] * 5


def test_engines_work_no_longer_than_the_step() -> None:
    times = step_time().schedule.step(plan(2, "dp", "dp", "op", "mp"))
    for engine in (times.matrix, times.vector, times.transfer):
        assert 0 < engine < times.cycles
    assert 0 <= times.exposed < times.cycles


def test_less_of_everything_takes_longer() -> None:
    splits = plan(2, "dp", "dp", "dp", "dp")
    whole = step_time().cycles(splits)
    assert step_time(link_rate=Fraction(1, 8)).cycles(splits) > 1.5 * whole
    assert step_time(link_latency=300).cycles(splits) > whole
    assert step_time(speeds=(1, 1, 1, Fraction(1, 2))).cycles(splits) > 1.3 * whole
    die = machine(preset("ndp-demo"))
    slow = replace(die.parameters, memory_words_per_cycle=Fraction(5))
    assert step_time(die=DieCycles(slow)).cycles(splits) > 1.1 * whole
    assert step_time(die=DieCycles(die.parameters, CONTROL | {"fetch": 4000.0})).cycles(splits) > 1.3 * whole


def test_two_dies_are_faster_than_one_and_four_than_two() -> None:
    cycles = [step_time(dies).cycles(plan(dies.bit_length() - 1, "dp", "dp", "dp", "dp")) for dies in (1, 2, 4)]
    assert cycles[0] > cycles[1] > cycles[2]


def test_tiles_are_what_the_first_die_sends() -> None:
    links = step_time().links
    tiles = links.tiles(ExchangeFlow(Region.of(samples=(0, 1)), Region.of(channels=(0, 1)), plane(128, 20), 3), 0)
    assert [(tile.samples, tile.channels) for tile in tiles] == [(32, 5)] * 4
    assert [tile.hops for tile in tiles] == [0, 1, 2, 1]
    # 32 samples of 5 channels at 3 positions over a link of 15/8 words a cycle; over two hops a link carries two.
    assert tiles[1].cycles == pytest.approx(32 * 5 * 3 * 8 / 15) and tiles[2].cycles == 2 * tiles[1].cycles


def test_a_row_compares_what_plans_count() -> None:
    (speedup,) = hybrid_speedup(lambda network, array, splits: 300 if set(splits[2]) == {"dp"} else 200)
    assert speedup.value == 1.5 and speedup.detail["rate 1/8"]["counted"] == {"data": 300, "joint": 200}


def embedded(rows: int, width: int, tokens: int) -> PlanGraph:
    return from_network(Network(name="words", input=Shape((tokens,)), layers=(
        Embedding(name="table", rows=rows, width=width), Dense(name="fc", outputs=10),
        SoftmaxCrossEntropy(name="loss"))))


def test_rows_of_an_embedding_hold_the_transfer_engine_and_their_gradient_is_cleared() -> None:
    die = machine(preset("ndp-demo"))

    def times(rows: int, width: int, tokens: int, split: str = "dp") -> Times:
        return StepTime(embedded(rows, width, tokens), 128, ring(2), die).schedule.step(((split,), ("dp",), ("dp",)))

    samples = 64
    gathered, added = (die.rows(8 * samples, 16, unlike)[1] for unlike in (0, 100))
    assert added > gathered > die.copy(Copy.part(8 * samples, 16))[1]
    # Rows that are alike wait for each other, one alone for all of its own adds; others do not.
    assert die.rows(8 * samples, 16, 10)[1] > 1.5 * added
    assert die.rows(8 * samples, 16, 1)[1] == pytest.approx(8 * samples * ADD_CYCLES, rel=0.35)
    # A die tells 32 blocks of 64 words apart.
    assert die.rows(8 * samples, 16, 1e9) == die.rows(8 * samples, 16, 128) < die.rows(8 * samples, 16, 127)
    assert (ADD_PACKETS, die.parameters.chunk_words) == (BLOCKS, packet_words(die.parameters))
    assert die.rows(1000, 1)[1] == pytest.approx(1000 * INDEXED_CYCLES + MEMORY_LATENCY, rel=0.2)
    small = times(100, 16, 8)
    # Engines wait for what others take of the memory as well.
    assert 0.99 * (gathered + added) < small.transfer < 1.5 * (gathered + added)
    assert times(100, 16, 24).transfer > 2.5 * small.transfer
    assert times(10_000, 16, 8).vector > small.vector + 9_900 * 16 / die.parameters.beat_words
    assert times(100, 16, 8, "op").transfer > small.transfer
    assert times(100, 16, 8, "mp").cycles > small.cycles
    assert die.rows(0, 16, 100) == (0, 0)


def test_barriers_between_sets_of_rings_that_share_a_block_take_time() -> None:
    schedule = StepTime(from_network(NETWORKS["digits-mlp"]), 128, ring(8)).schedule
    splits = (("op", "op", "dp"), ("dp", "dp", "mp"), ("dp", "dp", "dp"), ("dp", "dp", "dp"))
    cycles, step = schedule.step(splits).cycles, schedule.built(splits, ())
    assert any(isinstance(operation, Barrier) for operation in step.operations)
    step.operations[:] = [replace(operation, after=None) if isinstance(operation, Reduce) else operation
                          for operation in step.operations if not isinstance(operation, Barrier)]
    assert schedule.step(splits).cycles < cycles


def test_what_others_move_slows_a_task_that_needs_what_they_leave() -> None:
    """A read channel that others hold halfway: a task that asks for a quarter of it does not notice, unless it has
    nothing else to do while it reads."""
    parameters = preset("ndp-demo")
    beat = parameters.beat_words
    ends = {}
    for share in (0.0, 0.5):
        die = DieEngines(machine(parameters), [Taken(share, 0.0, 0.0, 1e9)] * 4, 1.0)
        ends[share] = [die.task("matrix", 0, (1000, 1000), moved) for moved in (
            Moved(beat * 250, 0), Moved(beat * 750, 0), Moved(beat * 250, 0, exposed=200))]
        ends[share].append(die.vector(0, (1000 + MEMORY_LATENCY, 10, 60), Moved(beat * 1000, 0)))
    quarter, three_quarters, exposed, vector = (slow - fast for fast, slow in zip(ends[0.0], ends[0.5], strict=True))
    # Each begins behind the one before.
    assert (quarter, three_quarters - quarter, exposed - three_quarters, vector) == (0, 500, 200, 1000)


def test_others_get_no_more_of_reads_than_their_turns() -> None:
    parameters = preset("ndp-demo")
    beat = parameters.beat_words
    die = DieEngines(machine(parameters), (), 1.0)
    # Both want all of the channel at the same time: six beats to the one's turn, two to the other's.
    die.task("matrix", 0, (1000, 1000), Moved(1000 * beat, 0, 1000 / 6))
    die.task("transfer", 0, (1000, 1000), Moved(1000 * beat, 0, 500))
    shares = die.next_shares()
    assert [share.read for share in shares] == pytest.approx([2 / 8, 6 / 8])
    # Nobody waits for more than the others read: together they take what both take alone.
    both = DieEngines(machine(parameters), shares, 1.0)
    ends = [both.task(engine, 0, (1000, 1000), Moved(1000 * beat, 0, turns))
            for engine, turns in (("matrix", 1000 / 6), ("transfer", 500))]
    assert ends[0] < ends[1] < ends[0] / (1 - 2 / 8) + 700 and max(ends) < 2200


def test_dies_that_have_less_wait_for_those_that_have_more() -> None:
    """The first die has the only input channel: it adds what others send while it still sends to them, and they begin
    when it ends."""
    schedule, splits = step_time(4).schedule, plan(2, "mp", "mp", "mp", "mp")
    step = schedule.built(splits, ())
    assert len(step.classes()) > 1
    which = np.array([0, 1, 1, 1])
    first, other = (schedule._walked([_ScheduleWalk(schedule, step, die,
                                                    np.zeros(4, dtype=np.int64))]).cycles for die in range(2))
    assert schedule._walked([_ScheduleWalk(schedule, step, die, which) for die in range(2)]).cycles > first > other
