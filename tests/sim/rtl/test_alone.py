"""A die without a network: what it computes, what its remote advances do, and what stops it."""

from dataclasses import replace

import pytest
from tests.support.compiled import compare
from tests.support.dies import ALONE
from tests.support.graphs import random_program, tangled

from plinth.driver.driver import DieError, Driver
from plinth_hw.isa import registers as regs
from plinth_hw.isa.descriptors import HEADER_WORDS, TaskHeader
from plinth_hw.isa.layout import pack
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.registers import Register
from plinth_sim.rtl.cosim import CosimArray, CosimError

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("lone-dies")]

WORDS = 1 << 13


def test_a_graph_with_advances_of_its_own_counters() -> None:
    program, buffers = random_program(ALONE, 1, 3, 15, WORDS)
    compare(tangled(program, 4), buffers, 3, memory_words=WORDS)


def test_an_advance_for_another_die_has_no_route_and_the_networks_registers_are_absent() -> None:
    program, _ = random_program(ALONE, 1, 5, 3, WORDS)
    (graph,) = program.step
    first, *rest = graph.tasks
    header = pack(TaskHeader, {"engine": Engine.VECTOR, "remote_enable": 1, "remote_die": 1})
    task = replace(first, words=[*header, *first.words[HEADER_WORDS:]])
    program = replace(program, step=[replace(graph, tasks=(task, *rest))])
    with CosimArray(ALONE, 1, WORDS) as rtl:
        driver, die = Driver(rtl, program, memory_words=WORDS), rtl.dies[0]
        assert driver.link_words(0) == [] and driver.injected_words(0) == 0
        for address in (Register.LINK_RATE, Register.WORDS_INJECTED, Register.WORDS_TRANSIT, regs.ROUTES,
                        regs.LINK_WORDS):
            with pytest.raises(CosimError, match="response 2"):
                die.read_register(address)
        die.write_register(Register.DIES, 2)
        with pytest.raises(DieError, match="NO_ROUTE"):
            driver.step(0)
