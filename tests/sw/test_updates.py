"""Training by rules that keep a state: against float64, over dies, from checkpoints, and what is refused."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.support.networks import random_data
from tests.support.sessions import MEMORY_WORDS, session

from plinth import cli
from plinth.buffers import Buffer
from plinth.errors import UserError
from plinth.lower.training import TrainingProgram, lower_training
from plinth.network.layers import Convolution, Dense, Flatten, MeanPool, Shape, SoftmaxCrossEntropy
from plinth.network.network import Network, perceptron
from plinth.plan.planning import data_parallel
from plinth.step.updates import update_program
from plinth.train.session import Session
from plinth.update.kinds import ADAGRAD, ADAGRAD_PRINTED, KINDS, LAWS, MOMENTUM, RMSPROP, SGD
from plinth.update.law import VectorOperations
from plinth.update.rule import UpdateRule
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import preset
from plinth_hw.isa.vector_body import VectorFunction, VectorOp

NETWORK, BATCH = perceptron("small", (12, 40, 24, 6)), 32
#: Rules of FP32, and of fixed point: narrow ones of Adagrad need an epsilon that 16 bits can hold.
FLOAT = [UpdateRule(kind, rate=0.01, epsilon=1e-5) for kind in (MOMENTUM, ADAGRAD, ADAGRAD_PRINTED, RMSPROP)]
FIXED = [UpdateRule(kind, rate=0.001 if kind == ADAGRAD_PRINTED else 0.01, epsilon=1e-2, wide=wide,
                    stochastic=stochastic)
         for kind in KINDS for wide in (False, True) for stochastic in (False, True)
         if LAWS[kind].optimised and (kind != SGD or wide or stochastic)]


def lowered(die: str, rule: UpdateRule, dies: int) -> TrainingProgram:
    return lower_training(NETWORK, data_parallel(NETWORK, dies=dies, batch=BATCH), preset(die), rule=rule, steps=1,
                          memory_words=MEMORY_WORDS)


def trained(die: str, rule: UpdateRule, dies: int, epochs: int) -> Session:
    """A session after some epochs of a step each."""
    run = session(NETWORK, data_parallel(NETWORK, dies=dies, batch=BATCH),
                  random_data(NETWORK, BATCH, np.random.default_rng(0)), lowered(die, rule, dies), rule=rule)
    for epoch in range(epochs):
        for _ in run.epoch(epoch):
            pass
    return run


def name(rule: UpdateRule) -> str:
    return f"{rule.kept or rule.kind}{' stochastic' if rule.stochastic else ''}"


@pytest.mark.parametrize("dies", [1, 3])
@pytest.mark.parametrize(("die", "rule"), [*(("ndp-tiny", rule) for rule in FLOAT),
                                           *(("fpga-tiny", rule) for rule in FIXED)], ids=str)
def test_steps_are_those_of_the_rule(die: str, rule: UpdateRule, dies: int) -> None:
    """As near to float64 as the format allows, state after state."""
    run = trained(die, rule, dies, 4)
    assert run.checks is not None and run.checks.failure is None
    kept = run.kept(run.driver)
    assert all(set(vectors) == set(rule.vectors) for vectors in kept.values())
    for vector in {"state"} & set(rule.vectors):
        assert all(np.abs(vectors[vector]).max() > 0 for vectors in kept.values())


@pytest.mark.parametrize("rule", FLOAT, ids=str)
def test_a_wrong_state_is_seen(rule: UpdateRule) -> None:
    """Of a layer, a tenth too large."""
    run = trained("ndp-tiny", rule, 2, 1)
    kept = {layer: {vector: values * np.float32(1.1) for vector, values in vectors.items()}
            for layer, vectors in run.kept(run.driver).items()}
    states = run._states(run.program.kept_flats_of(run.driver))
    run._states = lambda now: states  # type: ignore[method-assign]
    run.load_kept(kept)
    next(iter(run.epoch(1)))
    assert run.checks is not None and "update error" in (run.checks.failure or "")


@pytest.mark.parametrize("dies", [1, 2])
def test_an_update_is_the_same_on_any_number_of_dies(dies: int) -> None:
    """Of gradients that are powers of two, sums are the same in any order: what a die owns does not matter."""
    rule = FLOAT[1]
    single, several = (trained("ndp-tiny", rule, count, 1) for count in (1, dies + 1))
    others = several.parameters(several.driver)
    for variable, own in single.parameters(single.driver).items():
        np.testing.assert_allclose(own, others[variable], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("rule", [FLOAT[0], *FIXED[::3]], ids=name)
def test_what_goes_on_is_what_never_stopped(rule: UpdateRule) -> None:
    """Weights, states and random bits."""
    die = "ndp-tiny" if rule in FLOAT else "fpga-tiny"
    whole, half = (trained(die, rule, 2, epochs) for epochs in (3, 1))
    again = trained(die, rule, 2, 0)
    again.load_parameters(half.parameters(half.driver))
    again.load_kept(half.kept(half.driver))
    for epoch in (1, 2):
        for _ in again.epoch(epoch):
            pass
    others = again.parameters(again.driver)
    for variable, values in whole.parameters(whole.driver).items():
        np.testing.assert_array_equal(values, others[variable])
    for layer, vectors in whole.kept(whole.driver).items():
        for vector, values in vectors.items():
            np.testing.assert_array_equal(values, again.kept(again.driver)[layer][vector])


def test_gradients_of_another_scale_make_the_same_update() -> None:
    rng = np.random.default_rng(1)
    w, g, s = rng.standard_normal((3, 50))
    for rule in (UpdateRule(kind, momentum=0.8, epsilon=0.1, decay=0.7) for kind in KINDS):
        state = None if rule.kind == SGD else s**2
        scaled = None if state is None else state * rule.state_scale(8.0)
        np.testing.assert_allclose(rule.scaled(8.0).apply(w, 8.0 * g, scaled), rule.apply(w, g, state), rtol=1e-12)


def train(tmp_path: Path, *arguments: str) -> int:
    """The command's exit code."""
    try:
        cli.main(["train", "--device", "golden", "--batch", "512", "--out", str(tmp_path), *arguments])
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


@pytest.mark.parametrize(("arguments", "message"), [
    (["--machine", "ndp", "--wide"],
     "compute in fp32, without wide weights; give --narrow, or choose dies of fixed point, such as preset fpga-demo"),
    (["--machine", "ndp", "--stochastic"], "without stochastic rounding"),
    (["--update", "momentum", "--momentum", "1"], "momentum"),
    (["--update", "lars"], "lars"),
    (["--update", "rmsprop", "--decay", "1"], "Invalid value for '--decay': 1.0 is not in the range 0<=x<1"),
    (["--update", "rmsprop", "--epsilon", "0"], "Invalid value for '--epsilon': 0.0 is not in the range x>0"),
    (["--update", "rmsprop", "--momentum", "0.5"], "update 'rmsprop' has no --momentum; leave it out"),
    (["--update", "adagrad", "--decay", "0.5"], "update 'adagrad' has no --decay; leave it out"),
    (["--update", "rmsprop", "--wide"], "compute in fp32, without wide weights"),
    (["--machine", "fpga", "--update", "rmsprop"],
     "dies of preset 'fpga-demo' compute in Q3.12, where no engine has update 'rmsprop'; choose another --update, or "
     "dies of FP32, such as preset ndp-demo"),
    (["--machine", "fpga", "--rate", "inf"], "'inf' is not a finite number"),
])
def test_what_dies_cannot_do_is_refused(arguments: list[str], message: str, tmp_path: Path,
                                        capsys: pytest.CaptureFixture[str]) -> None:
    assert train(tmp_path, "--steps", "2", "--dies", "2", *arguments) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_a_checkpoint_goes_on_with_its_own_update_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "saved.npz"
    first = ["--machine", "fpga", "--dies", "1"]
    assert train(tmp_path, *first, "--epochs", "1", "--save", str(saved)) == 0
    assert train(tmp_path, *first, "--epochs", "2", "--steps", "1", "--resume", str(saved)) == 0
    assert train(tmp_path, *first, "--epochs", "2", "--resume", str(saved), "--narrow") == 2
    assert "was trained with --wide, not --narrow; go on as it was trained, or give --change" in capsys.readouterr().err
    assert train(tmp_path, "--epochs", "2", "--steps", "1", "--resume", str(saved), "--update", "sgd", "--change") == 0
    assert "note: the state of update 'adagrad wide' is left out" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(("room", "moves"), [(0.0, False), (0.25, True), (4.0, True)])
def test_no_error_asks_for_more_than_the_format_holds(room: float, moves: bool) -> None:
    """Both outputs of a sample end ``room`` below 8; the right one is not pushed beyond, the other one goes down."""
    network, rule = perceptron("ends", (4, 2)), UpdateRule(rate=0.5)
    plan = data_parallel(network, dies=1, batch=4)
    program = lower_training(network, plan, preset("fpga-tiny"), rule=rule, steps=1, memory_words=MEMORY_WORDS)
    samples = replace(random_data(network, 4, np.random.default_rng(0)),
                      train_x=np.ones((4, 4), np.float32), train_y=np.zeros(4, np.int64))
    run = session(network, plan, samples, program, rule=rule)
    before = np.full((4, 2), 2.0 - room / 4, np.float32)
    run.load_parameters({"fc1.weights": before, "fc1.bias": np.zeros(2, np.float32)})
    list(run.epoch(0))
    change = run.parameters(run.driver)["fc1.weights"] - before
    assert (change[:, 1] < 0).all()
    expected = -change[:, 1] if moves and room > 0.5 else np.full(4, room * rule.rate) if moves else np.zeros(4)
    np.testing.assert_allclose(change[:, 0], expected, atol=2.0**-9)


def test_long_sums_are_told() -> None:
    network, notes = Network(name="long", input=Shape((1, 256, 256)), layers=(
        Convolution(name="conv", channels=1, kernel=(1, 1)),
        MeanPool(name="pool", kernel=(256, 256), stride=(256, 256)), Flatten(name="flat"),
        Dense(name="fc", outputs=2), SoftmaxCrossEntropy(name="loss"))), []
    for batch in (1, 2):
        program = lower_training(network, data_parallel(network, dies=1, batch=batch), preset("fpga-tiny"),
                                 rule=UpdateRule(), steps=1, memory_words=1 << 24)
        notes += program.notes
    assert notes == ["layer 'conv': sums of 131072 products in its update may leave 48 bits, which hold 131071 of the "
                     "largest; they saturate"]


def test_dies_without_an_optimiser_refuse() -> None:
    die = replace(preset("fpga-tiny"), engines=frozenset(Engine) - {Engine.OPTIMISER})
    with pytest.raises(UserError, match="have no optimiser engine for update 'adagrad'"):
        lower_training(NETWORK, data_parallel(NETWORK, dies=1, batch=BATCH), die, rule=UpdateRule(ADAGRAD, wide=True),
                       steps=1, memory_words=MEMORY_WORDS)


def test_operations_write_their_target_and_read_the_others() -> None:
    """Of rules that keep what they read, which none of today's does of a reciprocal."""
    places = [Buffer(name, 0, 4, 8, 8) for name in "wgs"]

    def program(to: VectorOperations, _: object) -> None:
        to.add("q", "w", "s")
        to.subtract("q", "s", "g")
        to.multiply("s", "g", "w")
        to.shift("q", "s", 2.0)
        to.scale("s", "q", 3.0)
        to.reciprocal("q", "s")
        to.inverse_root("s", "g")

    rule: Any = SimpleNamespace(law=SimpleNamespace(program=program))
    made = update_program(preset("ndp-tiny"), rule, 4, *places)
    assert [(each.op, each.dst, each.a, each.b, each.immediate) for each in made.instructions] == [
        (VectorOp.ADD, "q", "w", "s", None), (VectorOp.SUB, "q", "s", "g", None), (VectorOp.MUL, "s", "g", "w", None),
        (VectorOp.ADD_IMMEDIATE, "q", "s", None, 2.0), (VectorOp.SCALE, "s", "q", None, 3.0),
        (VectorOp.FUNCTION, "q", "s", VectorFunction.RECIPROCAL, None),
        (VectorOp.FUNCTION, "s", "g", VectorFunction.INVERSE_ROOT, None), (VectorOp.SUB, "w", "w", "q", None)]
