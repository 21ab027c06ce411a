"""Wrong steps, put into golden dies while they train, and what ``plinth train`` says of them.

Each kind of wrong step is a function of an :class:`Injection`: it says what happens behind which task, at the start or
the end of a step, or to the rule that is lowered. Nothing in the product knows of it. Dies and golden model run the
same lowering, so golden dies suffice.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from plinth import cli
from plinth.buffers import Buffer
from plinth.driver.driver import Driver
from plinth.lower.training import TrainingProgram
from plinth.train import job
from plinth.train.checks import Checks
from plinth.train.session import Session
from plinth.update.kinds import ADAGRAD, ADAGRAD_PRINTED, KINDS, LAWS, MOMENTUM, RMSPROP, SGD
from plinth.update.law import Program
from plinth.update.rmsprop import RmsProp
from plinth.update.rule import STATE, STATE_LOW, WEIGHTS_LOW, UpdateRule
from plinth_sim.golden import optimiser
from plinth_sim.golden.array import GoldenArray

Floats = NDArray[np.float32]
#: A piece of a die's memory.
Place = tuple[int, Buffer]

DIES, STEPS = 2, 10
LAYERS = ("fc1", "fc2", "fc3")
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


@dataclass(frozen=True)
class Machine:
    """Dies and a rule that wrong steps are tried on."""

    preset: str
    rule: UpdateRule

    @property
    def fixed(self) -> bool:
        """Whether numbers are Q3.12."""
        return self.preset.startswith("fpga")

    @property
    def name(self) -> str:
        """For tables."""
        return f"{self.preset} {self.rule.title}"

    @property
    def options(self) -> list[str]:
        """Of the command."""
        rule = self.rule
        return ["--preset", self.preset, "--update", rule.kind, "--rate", str(rule.rate),
                *(word for name, value in rule.numbers.items() for word in (f"--{name}", str(value))),
                "--wide" if rule.wide else "--narrow",
                *(["--stochastic"] if rule.stochastic else [])]


#: Rates at which each rule trains, and an epsilon that 16 bits can hold.
RULES = {SGD: UpdateRule(SGD, rate=0.15), MOMENTUM: UpdateRule(MOMENTUM, rate=0.02),
         ADAGRAD: UpdateRule(ADAGRAD, rate=0.01, epsilon=1e-4),
         ADAGRAD_PRINTED: UpdateRule(ADAGRAD_PRINTED, rate=0.001, epsilon=1e-2),
         RMSPROP: UpdateRule(RMSPROP, rate=0.003, epsilon=1e-4, decay=0.9)}
FLOATS = "ndp-tiny", "ndp-demo-mixed", "hypar-tiny"
MACHINES = [*(Machine(preset, RULES[kind]) for preset in FLOATS for kind in KINDS),
            *(Machine("fpga-demo", replace(RULES[kind], wide=wide, stochastic=stochastic))
              for kind in KINDS if LAWS[kind].optimised
              for wide, stochastic in ((False, False), (True, False), (False, True)))]


@dataclass
class Injection:
    """Where a wrong step gets hold of a run.

    Parameters
    ----------
    machine : Machine
        What it runs on.
    patch : pytest.MonkeyPatch
        Ends with the run.
    """

    machine: Machine
    patch: pytest.MonkeyPatch
    #: The golden dies' driver, once they have started a step.
    driver: Driver | None = None
    #: Values of places at the start of this step and of the last one.
    before: dict[Place, Floats] = field(default_factory=dict)
    last: dict[Place, Floats] = field(default_factory=dict)
    #: Names of tasks that none has ended of yet.
    missed: set[str] = field(default_factory=set)
    #: States of generators that a kind keeps, by die.
    states: dict[int, NDArray[Any]] = field(default_factory=dict)
    #: The die whose task has just ended, and the step's number, from 1.
    die: int = 0
    step: int = 0
    _behind: list[tuple[re.Pattern[str], int | None, Callable[[], None]]] = field(default_factory=list)
    _start: list[Callable[[], None]] = field(default_factory=list)
    _end: list[Callable[[], None]] = field(default_factory=list)

    # What a kind says.

    def behind(self, tasks: str, change: Callable[[], None], die: int | None = None) -> None:
        """Do something when the last task whose name matches has ended on each die, or on one."""
        self._behind.append((re.compile(tasks), die, change))
        self.missed.add(tasks)

    def at_start(self, change: Callable[[], None]) -> None:
        """Do something before the dies start a step."""
        self._start.append(change)

    def at_end(self, change: Callable[[], None]) -> None:
        """Do something once all dies have ended a step, before it is checked."""
        self._end.append(change)

    def rule(self, change: Callable[[UpdateRule, float], UpdateRule]) -> None:
        """Lower another rule, made of the right one and of how much larger gradients are in memory."""
        right = job.lower_training

        def lower(*given: Any, rule: UpdateRule, **more: Any) -> TrainingProgram:
            scale = right(*given, rule=rule, **more).gradient_scale
            return right(*given, rule=change(rule, scale), **more)
        self.patch.setattr(job, "lower_training", lower)

    # Places.

    @property
    def program(self) -> TrainingProgram:
        """What the dies run."""
        assert self.driver is not None and isinstance(self.driver.program, TrainingProgram)
        return self.driver.program

    def dies(self, die: int | None) -> Sequence[int]:
        """One die, or all."""
        return range(DIES) if die is None else [die]

    def weights(self, layer: str, die: int | None = None) -> list[Place]:
        """A layer's weights and bias."""
        return [(number, self.program.weights[layer].buffers[number]) for number in self.dies(die)]

    def gradients(self, layer: str, die: int | None = None) -> list[Place]:
        """Their gradients, of each die's samples."""
        return [(number, self.program.gradients[layer].buffers[number]) for number in self.dies(die)]

    def kept(self, layer: str, vector: str) -> list[Place]:
        """What dies keep beside them."""
        return [(die, buffer) for die, blocks in enumerate(self.program.kept[layer][vector].blocks)
                for _, buffer in blocks]

    def named(self, name: str, die: int | None = None) -> list[Place]:
        """A place by its name."""
        return [(number, self.program.buffers[name]) for number in self.dies(die)]

    def read(self, place: Place) -> Floats:
        """Values of a place."""
        assert self.driver is not None
        return self.driver.read_floats(*place)

    def write(self, place: Place, values: NDArray[Any]) -> None:
        """Other values."""
        assert self.driver is not None
        self.driver.write_floats(*place, values.astype(np.float32))

    def state(self, die: int) -> NDArray[Any]:
        """Words of the state of a die's generator of random bits."""
        assert self.driver is not None
        return self.driver.read(die, self.program.generators[die]).copy()

    def write_state(self, die: int, words: NDArray[Any]) -> None:
        """Another state."""
        assert self.driver is not None
        self.driver.write(die, self.program.generators[die], words)

    def scale(self, places: Sequence[Place], factor: float) -> None:
        """Multiply what lies there."""
        for place in places:
            self.write(place, self.read(place) * np.float32(factor))

    def restore(self, places: Sequence[Place], values: Mapping[Place, Floats] | None = None) -> None:
        """Put back what lay there when the step started, or other values as far as there are any."""
        for place in places:
            if place in (values if values is not None else self.before):
                self.write(place, (values if values is not None else self.before)[place])

    # The run.

    def _snapshot(self) -> dict[Place, Floats]:
        places = [place for layer in LAYERS for place in (*self.weights(layer), *self.gradients(layer))]
        places += [place for layer, vectors in self.program.kept.items() for vector in vectors
                   for place in self.kept(layer, vector)]
        return {place: self.read(place).copy() for place in places}

    def install(self) -> None:
        """Put all of it in its place."""
        run_step, complete = Driver.step, GoldenArray._complete

        def wrong_step(driver: Driver, index: int) -> int:
            self.driver = driver
            self.step += 1
            self.last, self.before = self.before, self._snapshot()
            for change in self._start:
                change()
            cycles = run_step(driver, index)
            for change in self._end:
                change()
            return cycles

        def wrong_complete(array: GoldenArray, die: Any, task: Any) -> None:
            graph = None if self.driver is None else self.driver.program.step[die.number]
            named = None if graph is None else graph.task_at(task.address)
            if graph is not None and named is not None:
                for pattern, number, change in self._behind:
                    if number in (None, die.number) and pattern.fullmatch(named.name) and named is [
                            other for other in graph.tasks if pattern.fullmatch(other.name)][-1]:
                        self.die = die.number
                        change()
                        self.missed.discard(pattern.pattern)
            complete(array, die, task)
        self.patch.setattr(Driver, "step", wrong_step)
        self.patch.setattr(GoldenArray, "_complete", wrong_complete)


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
        at.patch.setattr(Session, "_result", lambda *given: (0.9 * right(*given)[0], None))

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
    at.patch.setattr(Dataset, "targets", lambda *given: change(right(*given)))


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

    def step(checks: Checks, *given: Any) -> None:
        right(checks, *given)
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
        def program(law: RmsProp, to: Program, rule: UpdateRule) -> None:
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
            at.patch.setattr(training._Lowering, "_optimiser_body", lambda *given: right(*given) | {flag: 0})

    for name, change in (("random rounding biased by a quarter of a place", lambda bits: bits >> 1 & 0x7FFF7FFF),
                         ("random rounding always down", np.zeros_like),
                         ("random rounding always up", lambda bits: np.full_like(bits, 0xFFFFFFFF))):
        @_kind(name, _random)
        def biased(at: Injection, change: Callable[[NDArray[Any]], NDArray[Any]] = change) -> None:
            right = optimiser.random_words
            at.patch.setattr(optimiser, "random_words", lambda *given: change(right(*given)).astype(np.uint32))

    @_kind("random bits of the first step in all steps", _random)
    def first_bits(at: Injection) -> None:
        at.at_start(lambda: [at.write_state(die, at.states.setdefault(die, at.state(die))) for die in range(DIES)])

    @_kind("random bits of one die on all dies", _random)
    def same_bits(at: Injection) -> None:
        right = Session._seed_generators

        def seed(session: Session, *given: Any) -> None:
            right(session, *given)
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
        patch.setattr("plinth.report.picture.draw", lambda *given: None)
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
    found = re.search(r"(step \d+|median of \d+ steps[^:]*): (\w+) ?(error|not finite)?", " ".join(text.split()))
    return f"{found[1]}: {found[2]}" if found else "unknown"


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
