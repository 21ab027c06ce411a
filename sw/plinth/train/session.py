"""The step loop: batches in, weights out, every step compared with the golden run.

A session drives one array (the device under test) and, if given, a second one (the golden model) with the
same program and the same driver, and compares every weight of every die after every step.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.driver.driver import Driver
from plinth.driver.executor import Executor
from plinth.lower.codes import LEVEL_WORD, level_of
from plinth.lower.places import HostView, LayerWeights
from plinth.network.network import Network
from plinth.network.parameters import KeptVectors, Parameters, flats
from plinth.train.checks import Checks, FoundStep, Generators
from plinth.train.data import Dataset
from plinth.train.losses import accuracy
from plinth.update.rule import HALF_BITS, SGD, STATE, STATE_LOW, WEIGHTS_LOW
from plinth_hw.isa.formats import Fixed, word_type

Floats = NDArray[np.float32]

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
    #: Steps after which every weight was compared, and whether all were equal so far.
    compared_steps: int = 0
    equal: bool = True
    losses: list[float] = field(default_factory=list)
    step_cycles: list[int] = field(default_factory=list)
    #: Levels of layers whose gathers are predicted, as dies have them.
    levels: dict[str, int] = field(default_factory=dict)
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
        self.load_kept({one.of(layer): {vector: np.zeros(one.shape, np.float32) for vector in vectors}
                        for layer, vectors in self.program.kept.items()
                        for one in self.network.shapes[layer].variables})

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

        for layer, held in zip(flats(self.network), copies, strict=True) if self._loaded else ():
            loaded = layer.join(self._loaded)
            if not all(same(copy, loaded) for copy in held):
                return f"weights of layer {layer.layer!r} are not those that were loaded"
        kept = self.kept(driver) if self._loaded_kept else {}
        for name, vectors in self._loaded_kept.items():
            for vector, loaded in vectors.items():
                if vector in kept.get(name, {}) and not same(kept[name][vector], np.asarray(loaded)):
                    return f"{vector!r} of {name!r} is not what was loaded"
        return None

    def _states(self, driver: Executor) -> list[NDArray[np.float64] | None]:
        """States of each layer as of the loss's own gradients."""
        assert self.checks is not None
        if self.checks.rule.kind == SGD:
            return [None] * len(self.network.weighted)
        scale = self.checks.rule.state_scale(self.program.gradient_scale)
        found: list[NDArray[np.float64] | None] = []
        for layer in self.network.weighted:
            vectors = self.program.kept[layer.name]
            halves = [vectors[half].join(driver.read_floats) * weight
                      for half, weight in ((STATE, 1.0), (STATE_LOW, LOW_UNIT)) if half in vectors]
            found.append(np.asarray(sum(halves), np.float64) / scale)
        return found

    def _low_halves(self, driver: Executor) -> list[NDArray[np.float64]]:
        """What low halves add to the weights of each layer; nothing at all, if there are none."""
        return [np.asarray(vectors[WEIGHTS_LOW].join(driver.read_floats), np.float64) * LOW_UNIT
                for layer in self.network.weighted
                if WEIGHTS_LOW in (vectors := self.program.kept.get(layer.name, {}))]

    def _saturated(self, driver: Executor) -> int:
        """How many numbers were beyond a fixed-point format so far, on all dies."""
        return sum(sum((driver.saturations(die) or {}).values()) for die in range(self.program.dies))

    def _layers(self, places: Mapping[str, LayerWeights]) -> list[LayerWeights]:
        return [places[layer.name] for layer in self.network.weighted]

    def parameters(self, driver: Executor) -> Parameters:
        """All variables: of every slice the copy on its ring's first die."""
        return self.program.parameters_of(driver)

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
                    if isinstance(driver, Driver):
                        driver.rewrite(place.die, place.task, LEVEL_WORD, place.word(level))
            self.levels[name] = level

    def _follow_levels(self) -> None:
        """Levels of the next step by the neurons that live in this one; where none does, they stay."""
        for name, outputs in self.program.living.items():
            values = outputs.gather(self.drivers[-1].read_floats)
            living = values[values > 0].astype(np.float64)
            if living.size and np.isfinite(living).all():
                part = self.program.levels[name][0].part
                self.set_levels({name: level_of(float(np.sqrt((living**2).mean())), part)})

    def _load(self, batches: NDArray[np.int64]) -> None:
        """Batches into die memory."""
        for place, batch in enumerate(batches):
            for driver in self.drivers:
                self.program.write_batch(driver, self.dataset.train_x[batch], self.dataset.targets(batch), place)

    def _seed_generators(self, epoch: int, states: Sequence[int]) -> None:
        """Random bits of an epoch follow from seed and epoch alone; within it they go on from states."""
        for die, buffer in enumerate(self.program.generators):
            (seed,) = np.random.default_rng([self.seed, 2, epoch, die]).integers(1, 1 << 32, 1, dtype=np.uint64)
            state = states[die] if len(states) == len(self.program.generators) else seed
            words = np.array([state], dtype=np.uint32).view(word_type(self.program.parameters.memory_format))
            for driver in self.drivers:
                driver.write(die, buffer, words[None])
        self._generators = self.generators(self.drivers[-1])

    def generators(self, driver: Executor) -> tuple[int, ...]:
        """States of the dies' generators of random bits, if they have any."""
        return tuple(int(np.ascontiguousarray(driver.read(die, buffer)[0]).view(np.uint32)[0])
                     for die, buffer in enumerate(self.program.generators))

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
            last = self.drivers[-1]
            before = None if self.checks is None else (
                self._copies(last), self._states(last), self._low_halves(last), self._saturated(last),
                self.generators(last))
            if self.checks is not None and before is not None:
                self.checks.start(self._not_loaded(before[0], last))
                self._loaded, self._loaded_kept = {}, {}
            cycles = self.driver.step(place)
            if self.golden is not None:
                self.golden.step(place)
                self._compare()
            self._follow_levels()
            loss, right = self._result(batch)
            if self.checks is not None and before is not None:
                self._check(self.checks, *before, batch, loss)
            self.losses.append(loss)
            self.step_cycles.append(cycles)
            yield StepResult(epoch, step, loss, right, cycles)

    def _predictions(self, batch: NDArray[np.int64]) -> Floats:
        return self.program.predictions.gather(self.driver.read_floats).reshape(len(batch), -1)

    def _result(self, batch: NDArray[np.int64]) -> tuple[float, float | None]:
        """Loss and accuracy of a step, from what the array predicted."""
        found, targets = self._predictions(batch), self.dataset.train_y[batch]
        if not self.dataset.classes:
            return float(np.mean((found.astype(np.float64) - targets) ** 2)), None
        picked = found[np.arange(len(batch)), targets].astype(np.float64)
        return (float(-np.log(np.maximum(picked, np.finfo(np.float32).tiny)).mean()), accuracy(found, targets))

    def _compare(self) -> None:
        """Every weight of every die, and all that is kept beside them."""
        assert self.golden is not None
        weights = [(die, buffer) for layer in self._layers(self.program.weights)
                   for die, buffer in enumerate(layer.buffers)]
        kept = [(die, buffer) for vectors in self.program.kept.values() for place in vectors.values()
                for die, blocks in enumerate(place.blocks) for _, buffer in blocks]
        for die, buffer in [*weights, *kept, *enumerate(self.program.generators)]:
            if buffer.columns:
                self.equal &= bool(np.array_equal(self.driver.read(die, buffer), self.golden.read(die, buffer)))
        self.compared_steps += 1

    def _gradients(self) -> list[NDArray[np.float64]]:
        """Gradients of each layer, weights then bias, flat: of every slice the sum over its ring."""
        return [np.asarray(layer.join(
            [sum((self.driver.read_floats(die, layer.buffers[die])[0].astype(np.float64) for die in ring),
                 np.zeros(layer.buffers[ring[0]].columns)) for ring in layer.rings], np.float64))
            / self.program.gradient_scale for layer in self._layers(self.program.gradients)]

    def _copies(self, driver: Executor) -> list[list[Floats]]:
        """Weights of each layer, flat, as often as dies hold copies of its slices."""
        return [[np.asarray(layer.join([driver.read_floats(ring[copy], layer.buffers[ring[copy]])[0]
                                        for ring in layer.rings], np.float32), dtype=np.float32)
                 for copy in range(len(layer.rings[0]))] for layer in self._layers(self.program.weights)]

    def _check(self, checks: Checks, copies_before: list[list[Floats]], states: Sequence[NDArray[np.float64] | None],
               low_before: Sequence[NDArray[np.float64]], saturated_before: int, generators: tuple[int, ...],
               batch: NDArray[np.int64], loss: float) -> None:
        """Compare the step with the reference."""
        decided = {name: tensor.gather(self.driver.read_floats) for name, tensor in self.program.maps.items()}
        last = self.drivers[-1]
        before, self._generators = self._generators, self.generators(last)
        found = FoundStep(self._predictions(batch), loss, self._gradients(), [copies[0] for copies in copies_before],
                          states, self._copies(self.driver), self._states(last), low_before, self._low_halves(last),
                          copies_before, self.program.gradient_scale,
                          self._saturated(last) - saturated_before,
                          Generators(before, generators, self._generators) if self.program.generators else None)
        checks.step(found, self.dataset.train_x[batch], self.dataset.train_y[batch], decided)
