"""Wrong steps, put into golden dies while they train, and what ``plinth train`` says of them.

Each kind of wrong step is a function of an :class:`~tests.support.injection.Injection`: it says what happens behind
which task, at the start or the end of a step, or to the rule that is lowered.
"""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.injection import DIES, LAYERS, MACHINES, Floats, Injection, Machine, Place

from plinth import cli
from plinth.train.checks import Checks
from plinth.train.session import Session
from plinth.update.kinds import ADAGRAD, ADAGRAD_PRINTED, MOMENTUM, RMSPROP, SGD
from plinth.update.law import VectorOperations
from plinth.update.rmsprop import RmsProp
from plinth.update.rule import STATE, STATE_LOW, WEIGHTS_LOW, UpdateRule
from plinth_sim.golden import optimiser

STEPS = 10
NETWORK = """\
version: 2
name: small
input: [64]
layers:
- {name: fc1, kind: dense, outputs: 12}
- {name: relu1, kind: relu}
- {name: fc2, kind: dense, outputs: 12}
- {name: relu2, kind: relu}
- {name: fc3, kind: dense, outputs: 10}
- {name: loss, kind: softmax-cross-entropy}
"""

#: Kinds of wrong steps by name, and on which machines there is such a thing.
Kind = Callable[[Injection], None]
_KINDS: dict[str, tuple[Kind, Callable[[Machine], bool]]] = {}


def _kind(name: str, on: Callable[[Machine], bool] = lambda machine: True) -> Callable[[Kind], Kind]:
    def enter(function: Kind) -> Kind:
        _KINDS[name] = function, on
        return function
    return enter


def _stateful(machine: Machine) -> bool:
    return machine.rule.kind != SGD


def _wide(machine: Machine) -> bool:
    return machine.rule.wide


def _of(*kinds: str) -> Callable[[Machine], bool]:
    return lambda machine: machine.rule.kind in kinds


def _random(machine: Machine) -> bool:
    return machine.rule.stochastic


# Forwards.


def _prediction_kinds() -> None:
    for factor in (0.9, 1.1):
        @_kind(f"predictions x {factor}")
        def scaled(at: Injection, factor: float = factor) -> None:
            at.at_end(lambda: at.scale([(die, at.program.predictions.buffers[die]) for die in range(DIES)], factor))

    @_kind("predictions of one die x 0.9")
    def of_one(at: Injection) -> None:
        at.at_end(lambda: at.scale([(1, at.program.predictions.buffers[1])], 0.9))

    @_kind("loss x 0.9")
    def loss(at: Injection) -> None:
        right = Session._result
        at.patch.setattr(Session, "_result", lambda *args: (0.9 * right(*args)[0], None))

    @_kind("targets shifted by a sample")
    def shifted(at: Injection) -> None:
        _targets(at, lambda values: np.roll(values, 1, axis=0))

    @_kind("targets shifted by a class")
    def classes(at: Injection) -> None:
        _targets(at, lambda values: np.roll(values, 1, axis=-1))

    @_kind("a layer's output by the weights of the step before, from step 8 on")
    def late(at: Injection) -> None:
        at.at_start(lambda: at.restore(at.weights("fc1"), at.last) if at.step >= 8 else None)
        at.behind(r"fc1\.output\[0\]", lambda: at.restore(at.weights("fc1", at.die)) if at.step >= 8 else None)

    @_kind("bias of a layer is not added")
    def biasless(at: Injection) -> None:
        # Behind the first step, whose bias is 0.
        at.at_start(lambda: [_without_bias(at, place) for place in at.weights("fc1")])
        at.behind(r"fc1\.output\[0\]", lambda: at.restore(at.weights("fc1", at.die)))


def _targets(at: Injection, change: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
    from plinth.train.data import Dataset

    right = Dataset.targets
    at.patch.setattr(Dataset, "targets", lambda *args: change(right(*args)))


def _without_bias(at: Injection, place: Place) -> None:
    values = at.read(place)
    values[0, -12:] = 0
    at.write(place, values)


# Backwards.


def _gradient_kinds() -> None:
    for layer in LAYERS:
        for name, factor in (("x 0.9", 0.9), ("x 1.05", 1.05), ("dropped", 0.0), ("doubled", 2.0),
                             ("with the wrong sign", -1.0)):
            @_kind(f"gradient of {layer} {name}")
            def scaled(at: Injection, layer: str = layer, factor: float = factor) -> None:
                at.behind(rf"{layer}\.update_grad.*", lambda: at.scale(at.gradients(layer, at.die), factor))

    @_kind("gradient of fc2 of the last step")
    def stale(at: Injection) -> None:
        at.behind(r"fc2\.update_grad.*", lambda: at.restore(at.gradients("fc2", at.die)))

    @_kind("gradients of all layers x 0.9")
    def all_layers(at: Injection) -> None:
        at.behind(r"fc\d\.update_grad.*", lambda: [at.scale(at.gradients(layer, at.die), 0.9) for layer in LAYERS])

    for name, factor in (("dropped", 0.0), ("doubled", 2.0)):
        @_kind(f"gradient of fc3 {name} in step 9 alone")
        def once(at: Injection, factor: float = factor) -> None:
            at.behind(r"fc3\.update_grad.*",
                      lambda: at.scale(at.gradients("fc3", at.die), factor) if at.step == 9 else None)

    @_kind("a die's part of all gradients x 0.95")
    def weaker(at: Injection) -> None:
        at.behind(r"fc\d\.update_grad.*", lambda: [at.scale(at.gradients(layer, 1), 0.95) for layer in LAYERS], die=1)

    @_kind("a die's part of a gradient missing")
    def one_die(at: Injection) -> None:
        at.behind(r"fc2\.update_grad.*", lambda: at.scale(at.gradients("fc2", 1), 0.0), die=1)

    @_kind("a die's part of a gradient added twice")
    def twice(at: Injection) -> None:
        at.behind(r"fc2\.update_grad.*", lambda: at.scale(at.gradients("fc2", 1), 2.0), die=1)

    for layer in LAYERS:
        @_kind(f"a die's part of the bias gradient of {layer} missing")
        def bias(at: Injection, layer: str = layer) -> None:
            at.behind(rf"{layer}\.update_grad.*", lambda: _no_bias_gradient(at, layer), die=1)

    @_kind("a sample dropped")
    def dropped(at: Injection) -> None:
        at.behind(r"loss\[0\]", lambda: _error_row(at, "fc3.error", None), die=1)

    @_kind("a sample dropped from lower layers")
    def lower(at: Injection) -> None:
        at.behind(r"fc2\.backward\[0\]", lambda: _error_row(at, "fc2.error", None), die=0)

    @_kind("a sample's error in the place of another's")
    def other(at: Injection) -> None:
        at.behind(r"loss\[0\]", lambda: _error_row(at, "fc3.error", 1), die=1)


def _no_bias_gradient(at: Injection, layer: str) -> None:
    (place,) = at.gradients(layer, 1)
    values = at.read(place)
    values[0, -{"fc1": 12, "fc2": 12, "fc3": 10}[layer]:] = 0
    at.write(place, values)


def _error_row(at: Injection, name: str, source: int | None) -> None:
    """The error of a die's first sample becomes 0, or another one's."""
    assert at.driver is not None
    ((die, buffer),) = at.named(name, at.die)
    words = at.driver.read(die, buffer)
    words[0] = 0 if source is None else words[source]
    at.driver.write(die, buffer, words)


# Updates.


def _update_kinds() -> None:
    for factor in (1.5, 0.9, 0.99):
        @_kind(f"rate x {factor}")
        def rate(at: Injection, factor: float = factor) -> None:
            at.rule(lambda rule, scale: replace(rule, rate=rule.rate * factor))

    @_kind("loss scale forgotten", lambda machine: machine.preset.startswith(("fpga", "ndp-demo-mixed"))
           and machine.rule.scaled(2.0).rate != machine.rule.rate)
    def scale(at: Injection) -> None:
        at.rule(lambda rule, scale: replace(rule, rate=rule.rate * (1 / scale if rule.squares else scale)))

    @_kind("update with the wrong sign")
    def sign(at: Injection) -> None:
        at.at_end(lambda: [at.write(place, 2 * at.before[place] - at.read(place)) for layer in LAYERS
                           for place in at.weights(layer)])

    @_kind("update of a layer left out")
    def none(at: Injection) -> None:
        at.at_end(lambda: at.restore(at.weights("fc2")))

    @_kind("update done twice")
    def twice(at: Injection) -> None:
        at.at_end(lambda: [at.write(place, 2 * at.read(place) - at.before[place]) for place in at.weights("fc2")])

    @_kind("the last layer's bias not updated")
    def bias(at: Injection) -> None:
        at.at_end(lambda: [_part(at, place, slice(-10, None), lambda now, before: before)
                           for place in at.weights("fc3")])

    @_kind("weights of one copy of the last step")
    def stale(at: Injection) -> None:
        at.at_end(lambda: at.restore(at.weights("fc2", 1)))

    @_kind("broadcast of a chunk to one die missing")
    def broadcast(at: Injection) -> None:
        at.at_end(lambda: [_part(at, place, slice(0, 32), lambda now, before: before)
                           for place in at.weights("fc2", 1)])

    @_kind("a reduction leaves a die out")
    def left_out(at: Injection) -> None:
        at.behind(r"fc2\.update_grad.*", lambda: _hide(at, 0.0), die=1)
        at.at_end(lambda: _show(at))

    @_kind("a reduction adds a die twice")
    def added_twice(at: Injection) -> None:
        at.behind(r"fc2\.update_grad.*", lambda: _hide(at, 2.0), die=1)
        at.at_end(lambda: _show(at))

    @_kind("chunks of an update in each other's place")
    def order(at: Injection) -> None:
        at.at_end(lambda: [_part(at, place, slice(0, 128), lambda now, before: before + np.roll(now - before, 64))
                           for place in at.weights("fc1")])

    @_kind("weights changed between steps")
    def weights(at: Injection) -> None:
        _between(at, lambda: at.scale(at.weights("fc2"), 0.9))

    @_kind("a weight of one copy changed between steps")
    def weight(at: Injection) -> None:
        _between(at, lambda: [_part(at, place, slice(3, 4), lambda now, before: now + np.float32(0.125))
                              for place in at.weights("fc2", 1)])

    @_kind("inverse roots 1 % too large", lambda machine: machine.rule.squares)
    def root(at: Injection) -> None:
        at.rule(lambda rule, scale: replace(rule, rate=rule.rate * 1.01))


def _part(at: Injection, place: Place, part: slice, change: Callable[[Floats, Floats], Floats]) -> None:
    values = at.read(place)
    values[0, part] = change(values[0, part], at.before[place][0, part])
    at.write(place, values)


def _hide(at: Injection, factor: float) -> None:
    (place,) = at.gradients("fc2", 1)
    at.hidden = at.read(place)  # type: ignore[attr-defined]
    at.scale([place], factor)


def _show(at: Injection) -> None:
    (place,) = at.gradients("fc2", 1)
    at.write(place, at.hidden)  # type: ignore[attr-defined]


def _between(at: Injection, change: Callable[[], Any]) -> None:
    """Do something behind the checks of a step, before the next one is looked at."""
    right = Checks.step

    def step(checks: Checks, *args: Any) -> None:
        right(checks, *args)
        change()
    at.patch.setattr(Checks, "step", step)


# States.


def _state_kinds() -> None:
    for vector, on in ((STATE, _stateful), (STATE_LOW, lambda machine: _wide(machine) and _stateful(machine)),
                       (WEIGHTS_LOW, _wide)):
        @_kind(f"{vector} not stored", on)
        def not_stored(at: Injection, vector: str = vector) -> None:
            at.at_end(lambda: at.restore(_vectors(at, vector)))

        @_kind(f"{vector} stored doubled", on)
        def doubled(at: Injection, vector: str = vector) -> None:
            at.at_end(lambda: at.scale(_vectors(at, vector), 2.0))

        @_kind(f"{vector} x 0.99", on)
        def scaled(at: Injection, vector: str = vector) -> None:
            at.at_end(lambda: at.scale(_vectors(at, vector), 0.99))

        @_kind(f"{vector} zeroed", on)
        def zeroed(at: Injection, vector: str = vector) -> None:
            at.at_end(lambda: at.scale(_vectors(at, vector), 0.0))

        @_kind(f"{vector} clobbered between steps", on)
        def clobbered(at: Injection, vector: str = vector) -> None:
            _between(at, lambda: at.scale(at.kept("fc2", vector), 0.5))

        @_kind(f"{vector} clobbered before the update", on)
        def early(at: Injection, vector: str = vector) -> None:
            at.at_start(lambda: at.scale(at.kept("fc2", vector), 0.5))

        @_kind(f"{vector} of the step before read", on)
        def stale(at: Injection, vector: str = vector) -> None:
            at.at_start(lambda: at.restore(_vectors(at, vector), at.last))

    @_kind("momentum 0.8 for 0.9", _of(MOMENTUM))
    def momentum(at: Injection) -> None:
        at.rule(lambda rule, scale: replace(rule, momentum=0.8))

    @_kind("decay 0.99 for 0.9", _of(RMSPROP))
    def decay(at: Injection) -> None:
        at.rule(lambda rule, scale: replace(rule, decay=0.99))

    @_kind("squares summed, not averaged", _of(RMSPROP))
    def summed(at: Injection) -> None:
        at.rule(lambda rule, scale: replace(rule, kind=ADAGRAD))

    @_kind("epsilon under the root", _of(RMSPROP))
    def under(at: Injection) -> None:
        def program(law: RmsProp, to: VectorOperations, rule: UpdateRule) -> None:
            to.multiply("q", "g", "g")
            to.subtract("q", "q", "s")
            to.scale("q", "q", 1 - rule.decay)
            to.add("s", "s", "q")
            to.shift("q", "s", rule.epsilon)
            to.inverse_root("q", "q")
            to.multiply("q", "q", "g")
            to.scale("q", "q", rule.rate)
        at.patch.setattr(RmsProp, "program", program)

    @_kind("epsilon ignored", _of(ADAGRAD, ADAGRAD_PRINTED, RMSPROP))
    def epsilon(at: Injection) -> None:
        # Of fixed point the least that there is.
        at.rule(lambda rule, scale: replace(rule, epsilon=2.0**-28 / scale**2 if at.machine.fixed else 1e-12))

    @_kind("epsilon doubled", _of(ADAGRAD, ADAGRAD_PRINTED, RMSPROP))
    def twice(at: Injection) -> None:
        at.rule(lambda rule, scale: replace(rule, epsilon=2 * rule.epsilon))

    @_kind("square root missing", _of(ADAGRAD))
    def no_root(at: Injection) -> None:
        at.rule(lambda rule, scale: replace(rule, kind=ADAGRAD_PRINTED))

    @_kind("square root where there is none", _of(ADAGRAD_PRINTED))
    def root(at: Injection) -> None:
        at.rule(lambda rule, scale: replace(rule, kind=ADAGRAD))

    for flag in ("wide_weights", "wide_state"):
        @_kind(f"{flag} 0", _wide if flag == "wide_weights" else lambda machine: _wide(machine) and _stateful(machine))
        def narrow(at: Injection, flag: str = flag) -> None:
            from plinth.lower import training

            right = training._Lowering._optimiser_body
            at.patch.setattr(training._Lowering, "_optimiser_body", lambda *args: right(*args) | {flag: 0})

    for name, change in (("random rounding biased by a quarter of a place", lambda bits: bits >> 1 & 0x7FFF7FFF),
                         ("random rounding always down", np.zeros_like),
                         ("random rounding always up", lambda bits: np.full_like(bits, 0xFFFFFFFF))):
        @_kind(name, _random)
        def biased(at: Injection, change: Callable[[NDArray[Any]], NDArray[Any]] = change) -> None:
            right = optimiser.random_words
            at.patch.setattr(optimiser, "random_words", lambda *args: change(right(*args)).astype(np.uint32))

    @_kind("random bits of the first step in all steps", _random)
    def first_bits(at: Injection) -> None:
        at.at_start(lambda: [at.write_state(die, at.states.setdefault(die, at.state(die))) for die in range(DIES)])

    @_kind("random bits of one die on all dies", _random)
    def same_bits(at: Injection) -> None:
        right = Session._seed_generators

        def seed(session: Session, *args: Any) -> None:
            right(session, *args)
            first = session.program.generators[0]
            for die, buffer in enumerate(session.program.generators):
                session.driver.write(die, buffer, session.driver.read(0, first))
            session._generators = session.generators(session.driver)
        at.patch.setattr(Session, "_seed_generators", seed)

    @_kind("random bits do not go on", _random)
    def stuck(at: Injection) -> None:
        at.at_start(lambda: at.states.update({die: at.state(die) for die in range(DIES)}))
        at.at_end(lambda: [at.write_state(die, state) for die, state in at.states.items()])

    @_kind("rounded to nearest, not at random", _random)
    def nearest(at: Injection) -> None:
        at.rule(lambda rule, scale: replace(rule, stochastic=False))


def _vectors(at: Injection, vector: str) -> list[Place]:
    return [place for layer in LAYERS for place in at.kept(layer, vector)]


_prediction_kinds()
_gradient_kinds()
_update_kinds()
_state_kinds()
#: In order.
WRONG_STEPS: Sequence[str] = tuple(_KINDS)


def applies(kind: str, machine: Machine) -> bool:
    """Whether a machine can go wrong in this way."""
    return _KINDS[kind][1](machine)


def cases() -> Iterator[tuple[str, Machine]]:
    """Every kind on every machine where there is such a thing."""
    for kind in WRONG_STEPS:
        for machine in MACHINES:
            if applies(kind, machine):
                yield kind, machine


@contextmanager
def _injected(kind: str | None, machine: Machine) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        # A picture takes longer than the steps.
        patch.setattr("plinth.report.picture.draw", lambda *args: None)
        if kind is not None:
            injection = Injection(machine, patch)
            _KINDS[kind][0](injection)
            injection.install()
        yield
        if kind is not None:
            assert not injection.missed, f"{kind}: no task is called {injection.missed}"


def train(kind: str | None, machine: Machine, folder: Path, *, steps: int = STEPS, batch: int = 32, seed: int = 0,
          more: Sequence[str] = ()) -> tuple[int, str]:
    """Exit code of ``plinth train`` with a wrong step (None: a right one) and ``more`` options, and all that it
    prints."""
    network = folder / "small.yaml"
    network.write_text(NETWORK)
    printed, code = StringIO(), 0
    with _injected(kind, machine), redirect_stdout(printed), redirect_stderr(printed):
        try:
            cli.main(["train", str(network), "--device", "golden", "--dies", str(DIES), "--batch", str(batch),
                      "--steps", str(steps), "--seed", str(seed), "--out", str(folder), *machine.options, *more])
        except SystemExit as stop:
            code = int(stop.code or 0)
    return code, printed.getvalue()


def failure(text: str) -> str:
    """The step and the error that a run failed by, out of what it printed."""
    match = re.search(r"(step \d+|median of \d+ steps[^:]*): (\w+) ?(error|not finite)?", " ".join(text.split()))
    return f"{match[1]}: {match[2]}" if match else "unknown"


def main() -> None:
    """Print what was seen of every case, and what was not; ``--kind TEXT`` those with this in their name."""
    wanted = sys.argv[sys.argv.index("--kind") + 1] if "--kind" in sys.argv else ""
    unseen, count = [], 0
    with TemporaryDirectory() as folder:
        for kind, machine in cases():
            if wanted not in kind:
                continue
            count += 1
            code, text = train(kind, machine, Path(folder))
            print(f"| {kind} | {machine.name} | {failure(text) if code == 2 else f'NOT SEEN ({code})'} |", flush=True)
            if code != 2:
                unseen.append((kind, machine.name))
    print(f"{count} cases of {len(WRONG_STEPS)} kinds, {len(unseen)} not seen")


if __name__ == "__main__":
    main()
