"""What a die takes is said in `machine/` alone, as the hardware has it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from plinth.array.array import ring
from plinth.machine.control import BODIES, BODY_WORD_CYCLES, CONTROL, FETCH_CYCLES, HEADERS, body_cycles
from plinth.machine.die import DieCycles
from plinth.machine.links import LINK_LATENCY
from plinth.machine.memory import MEMORY_LATENCY, REQUEST_CYCLES
from plinth.machine.transforms import place_flits, word_cycles
from plinth.machine.vector import FORWARD, latencies, vector_formula
from plinth.simulate.costs import COSTS
from plinth_hw.control.scheduler import QUEUE_DEPTH
from plinth_hw.control.task_ring import RING_TASKS
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import PRESETS, preset

ROOMS = ("network", "array", "update", "partition", "sharding", "step", "predict", "plan", "lower", "simulate")
#: Endings of names of what a die takes.
ENDINGS = ("CYCLES", "LATENCY", "PERIOD", "BEATS", "HEADERS", "BODIES")
#: Of a choice, not of a die; an array file's bound.
OTHERS = {("tile_strips", "LEAST_CYCLES"), ("array", "MAXIMUM_LATENCY")}


def _constants(path: Path) -> Iterator[str]:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(
            node, ast.AnnAssign) else []
        yield from (name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))


def test_no_room_beside_has_cycles_of_its_own() -> None:
    root = Path(__file__).resolve().parents[3] / "sw" / "plinth"
    paths = [path for room in ROOMS for path in ([root / f"{room}.py"] if (root / f"{room}.py").exists()
                                                 else (root / room).rglob("*.py"))]
    assert len(paths) > 100
    constants = {(path.stem, name) for path in paths for name in _constants(path) if name.endswith(ENDINGS)}
    assert constants == OTHERS


def test_queues_are_as_deep_as_the_hardwares() -> None:
    assert (HEADERS, BODIES) == (RING_TASKS, QUEUE_DEPTH)


def test_a_fetch_is_the_longest_bodys_way_behind_it() -> None:
    longest = max(body_cycles(die, engine) for die in PRESETS.values() for engine in die.engines)
    assert CONTROL["fetch"] == pytest.approx(longest, rel=0.1) and CONTROL["fetch"] > FETCH_CYCLES
    assert body_cycles(preset("ndp-demo"), Engine.VECTOR) == 56 * BODY_WORD_CYCLES


def test_what_waits_for_another_die_starts_later_over_longer_links() -> None:
    die = DieCycles(preset("ndp-demo"))
    assert die.arrival(LINK_LATENCY) == CONTROL["arrival"]
    assert die.arrival(LINK_LATENCY + 7) == die.arrival(LINK_LATENCY) + 7
    assert die.arrival(9) - die.advance(9) == CONTROL["issue"]


@pytest.mark.parametrize(("cost", "least"), [("die", CONTROL["arrival"]), ("paper", 0.0)])
def test_groups_wait_as_tasks_do(cost: str, least: float) -> None:
    """But that links shorter than those of co-simulation save nothing."""
    array = ring(2, preset="ndp-demo")
    second = 1 / float(array.clock_mhz * 1_000_000)
    arrivals = [COSTS[cost](array).arrival(latency) for latency in (1, LINK_LATENCY, LINK_LATENCY + 3)]
    assert arrivals == pytest.approx([least * second, least * second, (least + 3) * second])


def test_latencies_of_a_program_are_a_part_of_its_stages() -> None:
    die = preset("ndp-demo")
    load, _, store = vector_formula(die, FORWARD, 64, 16)
    before, behind = latencies(load, store, 2 * 64 + 2, 2 * 64)
    assert before == pytest.approx(MEMORY_LATENCY, rel=0.01) and behind == pytest.approx(MEMORY_LATENCY)
    # Of nothing but latency it is all.
    assert latencies(MEMORY_LATENCY + REQUEST_CYCLES - 1, MEMORY_LATENCY, 0, 0) == (MEMORY_LATENCY, MEMORY_LATENCY)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_place_is_as_many_flits_as_its_words_fill(name: str) -> None:
    """Beats are whole flits, so blocks of a beat waste none."""
    die = PRESETS[name].within
    for columns in (1, 2, 3, die.beat_words - 1, die.beat_words, die.beat_words + 1, 5 * die.beat_words + 3):
        assert place_flits(die, columns) == -(-columns // die.flit_words)
        assert place_flits(die, columns) >= columns * word_cycles(die)


def test_rows_of_an_empty_table_take_nothing() -> None:
    die = DieCycles(preset("ndp-demo"))
    assert die.rows(0, 8) == die.rows(8, 0) == (0.0, 0.0)
