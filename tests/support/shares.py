"""Golden arrays that each own some dies: in threads, and training runs on them as one process sees them."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.support.networks import random_data
from tests.support.sessions import MEMORY_WORDS, session

from plinth.driver.driver import Driver
from plinth.driver.program import Program
from plinth.lower.training import lower_training
from plinth.network.network import Network
from plinth.plan.plan import Plan
from plinth.runtime.transports import Letter, QueueTransport
from plinth.train.session import Session
from plinth.update.rule import UpdateRule
from plinth_hw.isa.descriptors import RECORD_WORDS
from plinth_hw.isa.parameters import preset
from plinth_sim.golden.array import GoldenArray
from plinth_sim.golden.transport import Transport

Image = NDArray[np.unsignedinteger]
Processes = Sequence[Sequence[int]]
RULE = UpdateRule(rate=0.01)
#: By number of dies: one process, two, and three, uneven ones among them.
SHARES = {2: (((0, 1),), ((1,), (0,))), 4: (((0, 1, 2, 3),), ((2,), (0, 1, 3)), ((0,), (1, 3), (2,))),
          6: (((5, 0), (1, 2, 3, 4)), ((4,), (0, 2), (1, 3, 5)))}


def in_threads(processes: Processes, work: Callable[[QueueTransport], Any]) -> list[Any]:
    """``work`` of every process in a thread of its own; what it returns."""
    ends = [QueueTransport(processes, own) for own in range(len(processes))]

    def carrier(other: QueueTransport, own: int) -> Callable[[Letter], None]:
        return lambda letter: other.letters.put((own, letter))

    for own, end in enumerate(ends):
        end.carriers.update((number, carrier(other, own)) for number, other in enumerate(ends) if number != own)

    def run(end: QueueTransport) -> Any:
        with end:
            return work(end)

    with ThreadPoolExecutor(len(ends)) as pool:
        return list(pool.map(run, ends))


def _nothing(session: Session) -> None:
    pass


@dataclass(frozen=True)
class Training:
    """Some steps of a network under a plan on dies of a preset, each compared with the float64 reference."""

    network: Network
    plan: Plan
    preset: str
    rule: UpdateRule = RULE
    steps: int = 3
    #: Called with the session before each step.
    before_step: Callable[[Session], None] = _nothing

    def __call__(self, transport: Transport | None) -> tuple[dict[int, Image], dict[str, Any]]:
        """Train on the dies of a process: the memory of each after the last step, and all that the host has read."""
        network, plan = self.network, self.plan
        data = random_data(network, self.steps * plan.batch, np.random.default_rng(3))
        program = lower_training(network, plan, preset(self.preset), rule=self.rule, steps=self.steps,
                                 memory_words=MEMORY_WORDS)
        training = session(network, plan, data, program, rule=self.rule, transport=transport)
        driver = training.driver
        assert isinstance(driver, Driver) and isinstance(driver.array, GoldenArray) and training.checks is not None
        self.before_step(training)
        for _ in training.epoch(0):
            self.before_step(training)
        read = {"losses": training.losses, "errors": training.checks.scaled, "kinks": training.checks.kinks.shares,
                "parameters": training.parameters(driver), "kept": training.kept(driver), "levels": training.levels,
                "generators": training.generators(driver), "saturated": driver.saturated(),
                "words": [die.injected_words for die in driver.statistics()],
                "state": program.state_of(driver)}
        return memories(driver.array, program), read


def memories(array: GoldenArray, program: Program) -> dict[int, Image]:
    """The memory of each die of an array, but for the completion records, whose order is free."""
    images = {}
    for number, die in zip(array.numbers, array.dies, strict=True):
        images[number] = die.read_memory(0, len(die.memory))
        records = die.parameters.words_of(RECORD_WORDS) * len(program.step[number].tasks)
        images[number][program.records:program.records + records] = 0
    return images


def assert_same(left: Any, right: Any, where: str) -> None:
    if isinstance(left, dict):
        assert left.keys() == right.keys(), where
        for key in left:
            assert_same(left[key], right[key], f"{where} {key}")
    elif isinstance(left, (list, tuple)):
        assert len(left) == len(right), where
        for number, (mine, theirs) in enumerate(zip(left, right, strict=True)):
            assert_same(mine, theirs, f"{where} {number}")
    else:
        assert np.array_equal(left, right, equal_nan=isinstance(left, float)), where


def check(training: Training, run: Callable[..., list[Any]] = in_threads, shares: int = 3) -> dict[str, Any]:
    """Some shares of the dies against one array without a transport; what the host has read."""
    memories, read = training(None)
    assert all(image.any() for image in memories.values()) and len(read["losses"]) == training.steps
    for processes in SHARES[training.plan.dies][-shares:]:
        outcomes = run(processes, training)
        together = {die: image for images, _ in outcomes for die, image in images.items()}
        assert [sorted(images) for images, _ in outcomes] == [sorted(dies) for dies in processes]
        assert_same(dict(sorted(together.items())), memories, f"{processes}: die")
        for _, theirs in outcomes:
            assert_same(theirs, read, f"{processes}:")
    return read
