"""The step loop: batches in, weights out, every step compared with the golden run.

A session drives one array (the device under test) and, if given, a second one (the golden model) with the
same program and the same driver, and compares every weight of every die after every step. Where dies live in several
processes, each runs the whole session: what is read is read by all together (:mod:`plinth.driver.executor`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plinth.driver.executor import Executor
from plinth.lower.codes import LEVEL_WORD, level_of
from plinth.lower.places import HostView
from plinth.network.network import Network
from plinth.network.parameters import KeptVectors, Parameters, layer_vectors
from plinth.partition.cuts import Integers
from plinth.train.checkpoint import array_name
from plinth.train.checks import MEDIAN_STEPS, Checks, FoundStep, Generators
from plinth.train.data import Dataset
from plinth.train.losses import accuracy
from plinth.update.rule import HALF_BITS, STATE, STATE_LOW, WEIGHTS_LOW
from plinth_hw.isa.formats import Fixed

Floats = NDArray[np.float32]
#: Vectors beside each layer's variables as one, by layer and name.
Kept = Mapping[str, Mapping[str, NDArray[np.float64]]]

#: What a number in a low half counts for, which is read as if it were a high one.
LOW_UNIT = 2.0**-HALF_BITS


def epoch_order(samples: int, batch: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """Sample numbers ``[steps, batch]`` of an epoch: shuffled, what the batch leaves over is dropped."""
    order = np.random.default_rng([seed, 1, epoch]).permutation(samples)
    steps = samples // batch
    return order[:steps * batch].reshape(steps, batch)


@dataclass
class StepResult:
    """What one step showed."""

    epoch: int
    step: int
    loss: float
    #: None where there are no classes.
    accuracy: float | None
    cycles: int


class _Held(NamedTuple):
    """What dies hold between two steps."""

    #: Weights of each layer, flat, as often as dies hold copies.
    copies: list[list[Floats]]
    states: list[NDArray[np.float64] | None]
    low_halves: list[NDArray[np.float64]]
    #: Numbers that were beyond a fixed-point format so far.
    saturated: int
    generators: tuple[int, ...]


@dataclass
class Session:
    """A training run on an array.

    Parameters
    ----------
    network, dataset, program
        What is trained, on what, and where the host reads and writes.
    driver : Executor
        Of the array under test.
    golden : Executor or None
        Of the golden model's array; None when the array under test is the golden model itself, or is not compared with
        it.
    checks : Checks or None
        Compares steps with a float64 reference.
    """

    network: Network
    dataset: Dataset
    program: HostView
    driver: Executor
    golden: Executor | None
    checks: Checks | None
    batch: int
    seed: int
    #: Beside the first :data:`~plinth.train.checks.MEDIAN_STEPS` steps those are checked whose number is a multiple.
    check_every: int = 1
    #: Steps after which every weight was compared, and whether all were equal so far.
    compared_steps: int = 0
    equal: bool = True
    losses: list[float] = field(default_factory=list)
    step_cycles: list[int] = field(default_factory=list)
    #: Levels of layers whose gathers are predicted, as dies have them.
    levels: dict[str, int] = field(default_factory=dict)
    #: By layer whose rows move one by one, those from each owner (row) to each worker (column) in all batches so far.
    rows: dict[str, Integers] = field(default_factory=dict)
    #: States of generators as they were last written, or left by a step.
    _generators: tuple[int, ...] = ()
    #: Until a step has begun: what was loaded.
    _loaded: Parameters = field(default_factory=dict)
    _loaded_kept: KeptVectors = field(default_factory=dict)

    @property
    def drivers(self) -> list[Executor]:
        """The array under test, then the golden one."""
        return [self.driver] if self.golden is None else [self.driver, self.golden]

    @property
    def gradient_error(self) -> float:
        """Largest relative error of a layer's gradient over all steps."""
        assert self.checks is not None
        return self.checks.largest["gradient"]

    def load_parameters(self, parameters: Parameters) -> None:
        """Give every die its slices of the weights, beside which nothing is kept yet."""
        self._loaded = parameters
        for driver in self.drivers:
            self.program.load(driver, parameters)
        self.load_kept({variable.qualified(layer): {vector: np.zeros(variable.shape, np.float32) for vector in vectors}
                        for layer, vectors in self.program.kept.items()
                        for variable in self.network.shapes[layer].variables})

    def load_kept(self, kept: KeptVectors) -> None:
        """Give every die what it owns of the vectors beside the weights."""
        self._loaded_kept = kept
        if self.checks is not None:
            self.checks.forget()
        for driver in self.drivers:
            self.program.load_kept(driver, kept)

    def kept(self, driver: Executor) -> KeptVectors:
        """The vectors beside all variables: of wide numbers each half as a number."""
        return self.program.kept_of(driver)

    def _not_loaded(self, copies: Sequence[Sequence[Floats]], driver: Executor) -> str | None:
        """What the dies do not hold of what was loaded, but for rounding it to their format."""
        fmt = self.program.parameters.memory_format
        place, most = (2.0**-fmt.fraction_bits, fmt.most * 2.0**-fmt.fraction_bits) if isinstance(fmt, Fixed) else (
            0.0, np.inf)

        def same(held: Floats, loaded: NDArray[Any]) -> bool:
            return bool(np.all(np.abs(held - np.clip(loaded, -most - place, most)) <= place / 2))

        for layer, held in zip(layer_vectors(self.network), copies, strict=True) if self._loaded else ():
            loaded = layer.join(self._loaded)
            if not all(same(copy, loaded) for copy in held):
                return f"weights of layer {layer.layer!r} are not those that were loaded"
        kept = self.kept(driver) if self._loaded_kept else {}
        for name, vectors in self._loaded_kept.items():
            for vector, loaded in vectors.items():
                if vector in kept.get(name, {}) and not same(kept[name][vector], np.asarray(loaded)):
                    return f"{vector!r} of {name!r} is not what was loaded"
        return None

    def _states(self, kept: Kept) -> list[NDArray[np.float64] | None]:
        """States of each layer as of the loss's own gradients, of the vectors beside the weights."""
        assert self.checks is not None
        if not self.checks.rule.law.stateful:
            return [None] * len(self.network.weighted)
        scale = self.checks.rule.state_scale(self.program.gradient_scale)
        states: list[NDArray[np.float64] | None] = []
        for layer in self.network.weighted:
            vectors = kept[layer.name]
            halves = [vectors[half] * weight
                      for half, weight in ((STATE, 1.0), (STATE_LOW, LOW_UNIT)) if half in vectors]
            states.append(np.asarray(sum(halves), np.float64) / scale)
        return states

    def _low_halves(self, kept: Kept) -> list[NDArray[np.float64]]:
        """What low halves add to the weights of each layer, of the vectors beside these; nothing at all, if there are
        none."""
        return [vectors[WEIGHTS_LOW] * LOW_UNIT for layer in self.network.weighted
                if WEIGHTS_LOW in (vectors := kept.get(layer.name, {}))]

    def _saturated(self, driver: Executor) -> int:
        """How many numbers were beyond a fixed-point format so far, on all dies."""
        return sum(sum(counts.values()) for counts in driver.saturated() or ())

    def _by_layer(self, by_name: Mapping[str, Any]) -> list[Any]:
        """In the order of the network's layers."""
        return [by_name[layer.name] for layer in self.network.weighted]

    def parameters(self, driver: Executor) -> Parameters:
        """Read all variables by name: of every slice the copy on its ring's first die."""
        return self.program.parameters_of(driver)

    def each_parameter(self, driver: Executor) -> Iterator[tuple[str, Floats]]:
        """Read variables one after the other: not all of them need be held."""
        return self.program.each_parameter(driver)

    def each_array(self, driver: Executor) -> Iterator[tuple[str, Floats]]:
        """Read what a checkpoint has, one array after the other, by its names there: variables, then vectors beside
        them."""
        yield from self.each_parameter(driver)
        for name, vector, values in self.program.each_kept(driver):
            yield array_name(name, vector), values

    def set_levels(self, levels: Mapping[str, int]) -> None:
        """Give every die levels of layers whose gathers are predicted.

        Raises
        ------
        ValueError
            If a layer may not have its level.
        """
        for name, level in levels.items():
            for place in self.program.levels[name] if self.levels.get(name) != level else ():
                for driver in self.drivers:
                    if place.die in driver.numbers:
                        driver.rewrite(place.die, place.task, LEVEL_WORD, place.word(level))
            self.levels[name] = level

    def _follow_levels(self) -> None:
        """Levels of the next step by the neurons that live in this one; where none does, they stay."""
        for name, outputs in self.program.living.items():
            values = outputs.gather(self.drivers[-1])
            living = values[values > 0].astype(np.float64)
            if living.size and np.isfinite(living).all():
                part = self.program.levels[name][0].part
                self.set_levels({name: level_of(float(np.sqrt((living**2).mean())), part)})

    def _load(self, batches: NDArray[np.int64]) -> None:
        """Batches into die memory."""
        for place, batch in enumerate(batches):
            for driver in self.drivers:
                self.program.write_batch(driver, self.dataset.train_x[batch], self.dataset.targets(batch), place)
            for layer, rows in self.program.rows_of(self.dataset.train_x[batch]).items():
                self.rows[layer] = self.rows.get(layer, 0) + rows

    def _seed_generators(self, epoch: int, states: Sequence[int]) -> None:
        """Random bits of an epoch follow from seed and epoch alone; within it they go on from states."""
        dies = range(len(self.program.generators))
        if len(states) != len(dies):
            states = [int(np.random.default_rng([self.seed, 2, epoch, die]).integers(1, 1 << 32, dtype=np.uint64))
                      for die in dies]
        for driver in self.drivers:
            self.program.write_generators(driver, states)
        self._generators = self.generators(self.drivers[-1])

    def generators(self, driver: Executor) -> tuple[int, ...]:
        """States of the dies' generators of random bits, if they have any. Collective."""
        return self.program.generators_of(driver)

    def epoch(self, epoch: int, first: int = 0, generators: Sequence[int] = ()) -> Iterator[StepResult]:
        """Run one epoch step by step.

        Parameters
        ----------
        first : int
            Number of the step to begin with; those before it have been run.
        generators : sequence of int
            As :meth:`generators` after these.
        """
        order = epoch_order(len(self.dataset.train_x), self.batch, self.seed, epoch)
        self._seed_generators(epoch, generators)
        for step, batch in enumerate(order[first:], first):
            place = step % self.program.batches
            if not place or step == first:
                self._load(order[step - place:step - place + self.program.batches])
            last, checks = self.drivers[-1], self._due_checks()
            before = None if checks is None else self._held(last)
            if checks is not None and before is not None:
                checks.start(self._not_loaded(before.copies, last))
                if checks.skipped:
                    # Of a step that was not looked at nobody has seen what it left.
                    self._generators = before.generators
            self._loaded, self._loaded_kept = {}, {}
            cycles = self.driver.step(place)
            if self.golden is not None:
                self.golden.step(place)
                self._compare()
            self._follow_levels()
            loss, right = self._result(batch)
            if checks is not None and before is not None:
                self._check(checks, before, batch, loss)
            self.losses.append(loss)
            self.step_cycles.append(cycles)
            yield StepResult(epoch, step, loss, right, cycles)

    def _due_checks(self) -> Checks | None:
        """The checks, if they are made of the next step."""
        number = len(self.losses)
        if self.checks is not None and number >= MEDIAN_STEPS and number % self.check_every:
            self.checks.skip()
            return None
        return self.checks

    def _predictions(self, batch: NDArray[np.int64]) -> Floats:
        return self.program.predictions.gather(self.driver).reshape(len(batch), -1)

    def _result(self, batch: NDArray[np.int64]) -> tuple[float, float | None]:
        """Loss and accuracy of a step, from what the array predicted."""
        predictions, targets = self._predictions(batch), self.dataset.train_y[batch]
        if not self.dataset.classes:
            return float(np.mean((predictions.astype(np.float64) - targets) ** 2)), None
        picked = predictions[np.arange(len(batch)), targets].astype(np.float64)
        return (float(-np.log(np.maximum(picked, np.finfo(np.float32).tiny)).mean()), accuracy(predictions, targets))

    def _compare(self) -> None:
        """Every weight of every die, and all that is kept beside them."""
        assert self.golden is not None
        state, wanted = (self.program.state_of(executor) for executor in (self.driver, self.golden))
        self.equal &= all(map(np.array_equal, state, wanted))
        self.compared_steps += 1

    def _held(self, driver: Executor) -> _Held:
        """What dies hold between two steps."""
        kept = self.program.kept_flats_of(driver)
        return _Held(self._by_layer(self.program.copies_of(driver)), self._states(kept), self._low_halves(kept),
                     self._saturated(driver), self.generators(driver))

    def _check(self, checks: Checks, before: _Held, batch: NDArray[np.int64], loss: float) -> None:
        """Compare the step with the reference."""
        decided, after = self.program.maps_of(self.driver), self._held(self.drivers[-1])
        copies = after.copies if self.golden is None else self._by_layer(self.program.copies_of(self.driver))
        last, self._generators = self._generators, after.generators
        sums = self._by_layer(self.program.gradients_of(self.driver))
        die_step = FoundStep(self._predictions(batch), loss, [gradient.values for gradient in sums],
                             [layer_copies[0] for layer_copies in before.copies], before.states, copies, after.states,
                             before.low_halves, after.low_halves, before.copies, self.program.gradient_scale,
                             after.saturated - before.saturated,
                             Generators(last, before.generators, after.generators) if self.program.generators else None,
                             [gradient.rounding for gradient in sums])
        checks.step(die_step, self.dataset.train_x[batch], self.dataset.train_y[batch], decided)
