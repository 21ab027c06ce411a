"""How a wrong step gets hold of golden dies while ``plinth train`` runs on them: machines, and where to change what.

Nothing in the product knows of it. Dies and golden model run the same lowering, so golden dies suffice.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from plinth.buffers import Buffer
from plinth.driver.driver import Driver
from plinth.lower.training import TrainingProgram
from plinth.train import job
from plinth.update.kinds import ADAGRAD, ADAGRAD_PRINTED, KINDS, LAWS, MOMENTUM, RMSPROP, SGD
from plinth.update.rule import UpdateRule
from plinth_sim.golden.array import GoldenArray

Floats = NDArray[np.float32]
#: A piece of a die's memory.
Place = tuple[int, Buffer]

DIES = 2
LAYERS = ("fc1", "fc2", "fc3")


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

        def lower(*args: Any, rule: UpdateRule, **more: Any) -> TrainingProgram:
            scale = right(*args, rule=rule, **more).gradient_scale
            return right(*args, rule=change(rule, scale), **more)
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
