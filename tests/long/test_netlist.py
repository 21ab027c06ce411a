"""Dies after synthesis train as the golden model does: cells of an ECP5, not the Verilog that they were made of."""

import re

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.ecp5 import NETLIST_MODELS
from tests.support.netlist import netlist
from tests.support.networks import random_data

from plinth.array.array import ring
from plinth.driver.device import DeviceArray
from plinth.driver.driver import Driver
from plinth.lower.training import TrainingProgram, lower_training
from plinth.network.layers import Convolution, Dense, Flatten, MaxPool, Relu, Shape, SoftmaxCrossEntropy, Tanh
from plinth.network.network import Network
from plinth.network.parameters import initial_parameters
from plinth.plan.planning import plan_network
from plinth.train.session import Session
from plinth.update.rule import UpdateRule
from plinth_hw.isa.descriptors import RECORD_WORDS
from plinth_hw.isa.parameters import preset
from plinth_sim.golden.array import GoldenArray
from plinth_sim.rtl import verilator
from plinth_sim.rtl.cosim import CosimArray

pytestmark = pytest.mark.long

DIE = preset("fpga-tiny")
DIES, BATCH, WORDS = 2, 8, 1 << 14
NETWORK = Network(name="small", input=Shape((2, 6, 6)), layers=(
    Convolution(name="conv", channels=3, kernel=(3, 3)), Relu(name="relu"),
    MaxPool(name="pool", kernel=(2, 2), stride=(2, 2)),
    Flatten(name="flat"), Dense(name="hidden", outputs=7), Tanh(name="tanh"), Dense(name="last", outputs=5),
    SoftmaxCrossEntropy(name="loss")))


@pytest.fixture(scope="module")
def program() -> TrainingProgram:
    """Convolutions split by samples, the others by features, so that every engine has its part."""
    plan = plan_network(NETWORK, ring(DIES, preset=DIE.name), planner="one-weird-trick", batch=BATCH).plan
    program = lower_training(NETWORK, plan, DIE, rule=UpdateRule("adagrad", rate=0.01, wide=True), steps=1,
                             memory_words=WORDS)
    assert {task.engine for task in program.step[0].tasks} == DIE.engines
    return program


def step(array: DeviceArray, program: TrainingProgram) -> list[NDArray[np.uint16]]:
    """Memory of each die after a training step."""
    session = Session(NETWORK, random_data(NETWORK, BATCH, np.random.default_rng(0)), program,
                      Driver(array, program, memory_words=WORDS), None, None, BATCH, 0)
    session.load_parameters(initial_parameters(NETWORK, 0))
    (_,) = session.epoch(0)
    return [die.read_memory(0, WORDS) for die in array.dies]


def test_a_training_step(program: TrainingProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    """All words are the golden model's; the completion records, which hold times, those of the Verilog."""
    # The step takes seconds, and compilation minutes.
    monkeypatch.setenv("PLINTH_COMPILE", "quick")
    verilog, top = netlist(DIE)
    assert not re.search(r"\b(always|case)\b", verilog["netlist.v"])
    with CosimArray(DIE, DIES, WORDS, verilog=verilog, top=top) as cells, CosimArray(DIE, DIES, WORDS) as rtl:
        synthesised, timed, wanted = (step(array, program) for array in (cells, rtl, GoldenArray(DIE, DIES, WORDS)))
    for die, tasks in enumerate(graph.tasks for graph in program.step):
        records = slice(program.records, program.records + DIE.words_of(RECORD_WORDS) * len(tasks))
        assert np.any(timed[die][records]) and np.count_nonzero(wanted[die]) > 1000
        wanted[die][records] = timed[die][records]
        np.testing.assert_array_equal(synthesised[die], wanted[die], f"die {die}")


@pytest.mark.parametrize(("module", "parameter", "message"), [
    ("MULT18X18D", 'REG_PIPELINE_CLK("CLK0")', "MULT18X18D_has_no_pipeline_register"),
    ("MULT18X18D", 'REG_OUTPUT_CLK("CLK1")', "MULT18X18D_has_registers_of_inputs_and_output"),
    ("DP16KD", 'REGMODE_A("OUTREG")', "DP16KD_has_no_output_registers"),
    ("DP16KD", 'CLKBMUX("INV")', "DP16KD_has_no_output_registers_chip_select_or_falling_clock"),
    ("DP16KD", 'WRITEMODE_B("OTHER")', "DP16KD_has_no_such_writemode"),
    ("DP16KD", "DATA_WIDTH_A(8)", "DP16KD_has_no_such_data_width"),
    ("DP16KD", "DATA_WIDTH_B(36)", "DP16KD_reads_36_bits_where_it_writes_36"),
    ("DP16KD", 'RESETMODE("OTHER")', "DP16KD_has_no_such_resetmode"),
    ("DP16KD", 'OTHER("1")', "OTHER")])
def test_what_models_do_not_do_is_refused(module: str, parameter: str, message: str) -> None:
    top = f"module top;\n  {module} #(.{parameter}) cell_0 ();\nendmodule\n"
    with pytest.raises(verilator.SimulatorError, match=message):
        verilator.build_library({"top.v": top, **NETLIST_MODELS}, "top")
