"""Training steps on golden dies of several processes: the bits are those of one, in memory and as hosts read them."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.networks import random_plan, trainable_network
from tests.support.shares import Processes, Training, assert_same, check, in_threads, memories

from plinth.api.training import TrainingResult, train
from plinth.driver.driver import DieError, Driver
from plinth.errors import UserError
from plinth.lower.training import TrainingProgram, lower_training
from plinth.network.layers import (
    Add,
    Convolution,
    Dense,
    Embedding,
    Flatten,
    Join,
    MaxPool,
    MeanPool,
    Relu,
    Shape,
    SoftmaxCrossEntropy,
)
from plinth.network.network import Network
from plinth.network.parameters import initial_parameters
from plinth.network.winograd import with_tiles
from plinth.network.zoo import NETWORKS
from plinth.partition.graph import from_network
from plinth.plan.plan import Plan
from plinth.runtime.arrays import golden_array
from plinth.runtime.processes import run_processes, split_dies
from plinth.runtime.transports import QueueTransport
from plinth.sharding import Sharding
from plinth.train import checkpoint, job
from plinth.train.session import Session
from plinth.update.rule import UpdateRule
from plinth_hw.isa.parameters import preset
from plinth_sim.golden.array import GoldenArray
from plinth_sim.golden.transport import Message, Met, Transport

WORDS = 1 << 18


def planned(network: Network, *split: str, batch: int = 8) -> Plan:
    """The same split of every layer that can be split so at each level."""
    graph = from_network(network)
    splits = tuple(tuple(choice if choice in graph.choices(number) else "dp" for choice in split)
                   for number in range(len(graph.nodes)))
    return Plan(sharding=Sharding(graph=graph, splits=splits, batch=batch), planner="data", model="exact",
                array=f"ring-{1 << len(split)}")


@pytest.mark.parametrize("seed", range(6))
def test_random_networks_under_random_plans(seed: int) -> None:
    generator = np.random.default_rng([11, seed])
    network, dies = trainable_network(generator), (2, 4, 6)[seed % 3]
    plan = random_plan(network, dies, int(generator.integers(dies, 3 * dies)), generator)
    check(Training(network, plan, ("ndp-tiny", "hypar-tiny")[seed % 2]))


@pytest.mark.parametrize("splits", [("dp", "dp"), ("mp", "mp"), ("op", "op"), ("dp", "mp"), ("op", "dp")])
def test_splits_of_all_layers(splits: tuple[str, str]) -> None:
    """Reductions over rings, partial sums, maps and errors between processes; pools, joins and residual adds."""
    network = Network(name="graph", input=Shape((2, 8, 8)), layers=(
        Convolution(name="conv1", channels=4, kernel=(3, 3), padding=(1, 1)), Relu(name="relu1"),
        Convolution(name="conv2", channels=4, kernel=(3, 3), padding=(1, 1)),
        Add(name="add", inputs=("conv2", "relu1")),
        MaxPool(name="max", kernel=(2, 2), stride=(2, 2)),
        MeanPool(name="mean", kernel=(3, 3), stride=(2, 2), padding=(1, 1)),
        Convolution(name="conv3", inputs=("mean",), channels=4, kernel=(1, 1)),
        Join(name="join", inputs=("conv3", "mean")),
        Flatten(name="flat"), Dense(name="fc", outputs=6), SoftmaxCrossEntropy(name="loss")))
    check(Training(network, planned(network, *splits), "ndp-tiny", steps=2))


def test_rows_by_number() -> None:
    network = Network(name="words", input=Shape((6,)), layers=(
        Embedding(name="table", inputs=("input",), rows=11, width=5), Dense(name="hidden", outputs=7),
        Relu(name="relu"), Dense(name="classes", outputs=3), SoftmaxCrossEntropy(name="loss")))
    for split in (("mp", "dp"), ("op", "mp")):
        check(Training(network, planned(network, *split), "ndp-tiny"))


def tiled(rounds: int | str | None = None, weights: str = "winograd") -> tuple[Network, Plan]:
    network = with_tiles(NETWORKS["digits-cnn"], 2, weights, rounds)
    graph = from_network(network)
    splits = tuple(("dp", "ep") if node.tiling else ("dp", "dp") for node in graph.nodes)
    return network, Plan(sharding=Sharding(graph=graph, splits=splits, batch=8), planner="data", model="exact",
                         array="ring-4")


def test_elements_of_tiles() -> None:
    check(Training(*tiled(), "ndp-demo-winograd", steps=2))


@pytest.mark.slow
def test_levels_of_predicted_gathers_follow_neurons_of_all_processes() -> None:
    read = check(Training(*tiled(1), "ndp-demo-predict", steps=2), shares=2)
    assert read["levels"]


@pytest.mark.parametrize("kind", ["momentum", "adagrad"])
def test_rules_that_keep_states(kind: str) -> None:
    network = NETWORKS["digits-mlp"]
    read = check(Training(network, planned(network, "dp", "mp"), "ndp-tiny", UpdateRule(kind, rate=0.002)), shares=2)
    assert read["kept"]


def test_numbers_of_16_bits() -> None:
    """Random bits and numbers beyond the format of each die, read by all."""
    network = NETWORKS["digits-mlp"]
    check(Training(network, planned(network, "dp", "dp"), "ndp-demo-mixed"), shares=2)
    rule = UpdateRule("momentum", rate=0.2, stochastic=True)
    read = check(Training(network, planned(network, "dp", "dp"), "fpga-demo", rule), shares=2)
    assert len(set(read["generators"])) == len(read["saturated"]) == 4


def test_a_whole_run_on_dies_of_two_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Setting up, steps, checks, checkpoints and the report; the process of die 0 writes weights."""
    here, saved = threading.local(), []
    save = checkpoint.save
    monkeypatch.setattr(job, "golden_array", lambda *arguments: golden_array(*arguments[:3], here.transport))

    def record(path: Path | None, *arguments: Any) -> None:
        save(path, *arguments)
        if path is not None:
            saved.append(here.transport)

    monkeypatch.setattr(checkpoint, "save", record)

    def run(transport: Transport | None) -> TrainingResult:
        here.transport = transport
        path = tmp_path / ("several" if transport else "one")
        return train("digits-mlp", array="ring-4", planner="hypar", batch=16, epochs=1, steps=3, update="momentum",
                     device="golden", save=path)

    alone = run(None)
    several = in_threads(((3, 1), (2, 0)), run)
    for result in several:
        assert_same(result.parameters, alone.parameters, "parameters")
        for key in set(alone.report) - {"wall_seconds", "setup_seconds"}:
            assert result.report[key] == alone.report[key], key
    assert [transport and transport.own for transport in saved] == [None, 1]
    loaded, expected = (checkpoint.load(tmp_path / name, alone.network) for name in ("several", "one"))
    assert_same(vars(loaded), vars(expected), "checkpoint")


@pytest.mark.slow
def test_processes_joined_by_pipes() -> None:
    check(Training(*tiled(), "ndp-demo-winograd", steps=2), run_processes, shares=2)


# How far a process may lead.

class Counting:
    """A transport that counts meetings."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.processes, self.own, self.receive = transport.processes, transport.own, transport.receive
        self.meetings = 0

    def send(self, message: Message) -> None:
        self.meetings += isinstance(message, Met)
        self._transport.send(message)


def led(lead: int, steps: int, transport: Transport) -> tuple[dict[int, Any], int]:
    """Memories after some steps that no host looks at between, and how many times the process told another that it
    had come to a meeting."""
    program, counting = mlp_program("dp", "dp", steps=steps), Counting(transport)
    driver = Driver(golden_array(preset("ndp-tiny"), 4, WORDS, counting), program, memory_words=WORDS, lead=lead)
    program.load(driver, initial_parameters(NETWORKS["digits-mlp"], 0))
    generator, before = np.random.default_rng(5), counting.meetings
    for place in range(steps):
        program.write_batch(driver, generator.random((8, 64)), np.eye(10)[generator.integers(0, 10, 8)], place)
    for place in range(steps):
        driver.step(place)
    meetings = counting.meetings - before
    driver.collect([])
    assert isinstance(driver.array, GoldenArray)
    return memories(driver.array, program), meetings


def mlp_program(*split: str, steps: int = 1) -> TrainingProgram:
    network = NETWORKS["digits-mlp"]
    return lower_training(network, planned(network, *split), preset("ndp-tiny"), rule=UpdateRule(), steps=steps,
                          memory_words=WORDS)


@pytest.mark.parametrize(("lead", "meetings"), [(0, 5), (1, 2), (2, 1), (5, 0)])
def test_processes_meet_as_seldom_as_their_lead_allows(lead: int, meetings: int) -> None:
    """Of a plan whose dies send each other messages of rings alone, with the same bits."""
    (wanted, _), = in_threads(((0, 1, 2, 3),), lambda transport: led(0, 5, transport))
    outcomes = in_threads(((2,), (0, 3, 1)), lambda transport: led(lead, 5, transport))
    assert [count for _, count in outcomes] == [meetings, meetings]
    assert_same({die: image for images, _ in outcomes for die, image in images.items()},
                {die: wanted[die] for die in (2, 0, 1, 3)}, "die")


@pytest.mark.parametrize(("processes", "split", "lead", "message"), [
    (((0, 1), (2, 3)), ("mp", "dp"), 1, "dies cannot lead by 1 steps in this plan: they send each other tiles, .*; "
     "choose 0, or planner data"),
    (((0, 1, 2, 3),), ("dp", "dp"), 2, "a lead of 2 steps is for processes, and all dies live in this one, .*; choose"),
    (((0, 1), (2, 3)), ("dp", "dp"), -1, "a lead must be 0 steps or more, not -1")])
def test_dies_that_cannot_lead_are_refused(processes: Processes, split: tuple[str, str], lead: int, message: str
                                           ) -> None:
    array = golden_array(preset("ndp-tiny"), 4, WORDS, QueueTransport(processes, 0))
    with pytest.raises(UserError, match=message):
        Driver(array, mlp_program(*split), memory_words=WORDS, lead=lead)


# Errors, of which all processes hear.

def other_plan(transport: Transport) -> None:
    """Each process has a plan of its own."""
    network = NETWORKS["digits-mlp"]
    plan = planned(network, *(("dp", "dp"), ("mp", "dp"))[transport.own])
    Training(network, plan, "ndp-tiny")(transport)


def mlp(before_step: Callable[[Session], None], transport: Transport) -> str:
    """The error that a run ends with where something is wrong before a step."""
    network = NETWORKS["digits-mlp"]
    with pytest.raises(DieError) as error:
        Training(network, planned(network, "mp", "dp"), "ndp-tiny", before_step=before_step)(transport)
    return f"{type(error.value).__name__}: {error.value}"


def test_processes_that_run_different_programs_are_refused() -> None:
    with pytest.raises(UserError, match=r"processes run different programs, of digests \w{16}, \w{16}; start all of "):
        in_threads(((0, 1), (2, 3)), other_plan)


def test_processes_whose_hosts_are_at_different_points_are_refused() -> None:
    def lost(session: Session) -> None:
        if session.losses and 0 in session.driver.numbers:
            session.parameters(session.driver)

    texts = in_threads(((0, 1, 2), (3,)), lambda transport: mlp(lost, transport))
    assert all("DieError: processes are at different points of their runs" in text for text in texts)


def test_an_error_of_one_hosts_code_ends_the_others() -> None:
    def break_down(session: Session) -> None:
        if session.losses and 3 in session.driver.numbers:
            raise UserError("samples.npz: cannot be read; mend it")

    def run(transport: Transport) -> str:
        if transport.own != 1:
            return mlp(break_down, transport)
        Training(NETWORKS["digits-mlp"], planned(NETWORKS["digits-mlp"], "mp", "dp"), "ndp-tiny",
                 before_step=break_down)(transport)
        raise AssertionError

    heard: list[str] = []
    with pytest.raises(UserError, match="cannot be read"):
        in_threads(((0, 1), (3,), (2,)), lambda transport: heard.append(run(transport)))
    assert len(heard) == 2
    for text in heard:
        assert text.startswith("RemoteDieError: die 3 lost: their process has ended with an error: samples.npz: cannot "
                               "be read; mend it") or "was stopped by an error of die" in text
    assert any("samples.npz" in text for text in heard)


@pytest.mark.slow
def test_whoever_breaks_off_is_named_and_his_word_counts() -> None:
    """The process whose error it is is quoted, not those that have heard of it."""
    with pytest.raises(UserError, match=r"^process 2 \(dies 1\): die 1: task .* stopped with BAD_ENGINE$"):
        run_processes(((0, 3), (2,), (1,)), bad_task)


def bad_task(transport: Transport) -> None:
    program = mlp_program("mp", "dp")
    driver = Driver(golden_array(preset("ndp-tiny"), 4, WORDS, transport), program, memory_words=WORDS)
    if 1 in driver.numbers:
        driver.rewrite(1, 0, 0, program.step[1].tasks[0].words[0] | 0xF)
    driver.step(0)


def ends(folder: Path, transport: Transport) -> None:
    """The process of die 0 ends without a word; the others say what they hear."""
    def end(session: Session) -> None:
        if session.losses and 0 in session.driver.numbers:
            os._exit(7)

    text = mlp(end, transport)
    (folder / str(transport.own)).write_text(text)


@pytest.mark.slow
def test_a_process_that_ends_is_named(tmp_path: Path) -> None:
    """Those that live on end with an error: whose dies are missing and what waits for them, or who has told of it."""
    with pytest.raises(UserError, match=r"process 0 \(dies 0, 3\): ended without a result, with exit code 7"):
        run_processes(((0, 3), (1,), (2,)), Ends(tmp_path))
    messages = [path.read_text() for path in sorted(tmp_path.iterdir())]
    lost = [text for text in messages if text.startswith("RemoteDieError: dies 0, 3 lost: their process has ended")]
    told = [text for text in messages if "was stopped by an error of die " in text]
    assert lost and len(lost) + len(told) == len(messages) == 2


class Ends:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, transport: Transport) -> None:
        ends(self.folder, transport)


def test_dies_are_shared_as_evenly_as_they_can_be() -> None:
    assert [list(dies) for dies in split_dies(5, 2)] == [[0, 1], [2, 3, 4]]
    for dies in range(1, 12):
        for processes in range(1, dies + 1):
            shares = split_dies(dies, processes)
            assert [die for share in shares for die in share] == list(range(dies))
            assert {len(share) for share in shares} <= {dies // processes, -(-dies // processes)}
    for processes in (0, 5):
        with pytest.raises(UserError, match=f"{processes} processes cannot share 4 dies; start 1 to 4"):
            split_dies(4, processes)
