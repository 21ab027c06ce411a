"""Routes that tasks set, on co-simulated dies: each kind of traffic takes its own, also while they change."""

from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.support.route_phases import DIE, DIES, MEMORY_WORDS, Phases

from plinth.array.array import ring
from plinth.driver.driver import DieError, Driver
from plinth.lower.builder import GraphBuilder
from plinth.lower.program import assemble
from plinth_hw.isa.operations import CollectiveOperation, Engine
from plinth_sim.golden.array import GoldenArray
from plinth_sim.rtl.cosim import CosimArray

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("tiny-dies")]


def memories(array: Any, phases: Phases, seed: int, **settings: Any) -> tuple[np.ndarray, Driver]:
    driver = Driver(array, phases.program, memory_words=MEMORY_WORDS, links=ring(DIES).directed(), **settings)
    for number, die in enumerate(array.dies):
        rng = np.random.default_rng(100 * seed + number)
        die.write_memory(0, rng.standard_normal(phases.used, dtype=np.float32).view(np.uint32))
    driver.step(0)
    return np.stack([die.read_memory(0, phases.used) for die in array.dies]), driver


@pytest.mark.parametrize(("seed", "latency", "rate", "memory"), [
    (1, 5, Fraction(15, 16), Fraction(5)), (2, 30, Fraction(1), Fraction(1)), (3, 1, Fraction(1, 3), Fraction(2))])
def test_routes_of_tiles_change_while_chunks_go_on(seed: int, latency: int, rate: Fraction, memory: Fraction) -> None:
    phases = Phases(seed)
    phases.program = replace(phases.program, parameters=replace(DIE, link_rate=rate))
    wanted, _ = memories(GoldenArray(DIE, DIES, MEMORY_WORDS), phases, seed)
    with CosimArray(DIE, DIES, MEMORY_WORDS, link_latency=latency, memory_rate=memory) as rtl:
        images, driver = memories(rtl, phases, seed, watchdog_cycles=20_000)
        assert (images == wanted).all()
        assert {(die, port): driver.link_words(die)[port] for die, port in product(range(DIES), range(2))
                } == dict(phases.words)
        records = {record.task: record for record in driver.records(0)}
        assert records["set_route[tiles, 0]"].start < records["reduce1"].end


@pytest.mark.parametrize(("fields", "code"), [
    ({"dies": 0}, "BAD_OPERAND"), ({"dies": 21}, "BAD_OPERAND"), ({"traffic": 3}, "BAD_OPERAND"),
    ({"first_die": 3}, "BAD_ROUTE"), ({"first_die": 1023, "dies": 1}, "BAD_ROUTE"), ({"ports": [0, 2]}, "BAD_ROUTE"),
    ({"ports": [255, 0]}, "BAD_ROUTE")])
@pytest.mark.parametrize("make", [CosimArray, GoldenArray])
def test_routes_that_cannot_be_are_refused(make: Any, fields: dict[str, Any], code: str) -> None:
    builders = [GraphBuilder(DIE) for _ in range(DIES)]
    for number, builder in enumerate(builders):
        body = {"first_die": 1, "dies": 2, "traffic": 2, "ports": [0, 1], **(fields if number == 2 else {})}
        builder.add("routes", Engine.COLLECTIVE, CollectiveOperation.SET_ROUTE, body)
    program = assemble([], builders, memory_words=MEMORY_WORDS)
    driver = Driver(make(DIE, DIES, MEMORY_WORDS), program, memory_words=MEMORY_WORDS, watchdog_cycles=20_000)
    with pytest.raises(DieError, match=rf"die 2: task 'routes' at word 0x\w+ stopped with {code}"):
        driver.step(0)
