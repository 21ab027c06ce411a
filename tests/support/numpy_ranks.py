"""Steps in numpy shared among threads that stand for ranks, and training runs on them as one rank sees them."""

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.support.networks import random_data

from plinth.network.network import Network
from plinth.network.parameters import initial_parameters
from plinth.plan.plan import Plan
from plinth.runtime.mpi_messages import MpiMessages
from plinth.runtime.numpy_executor import NumpyExecutor
from plinth.step.build import step_of
from plinth.step.step import Step
from plinth.train.session import Session
from plinth.update.rule import UpdateRule
from plinth_hw.isa.parameters import preset
from plinth_sim.golden.transport import Transport

Floats = NDArray[np.float32]
RULE = UpdateRule(rate=0.01)


class Post:
    """What threads that stand for ranks have sent each other and not received yet, by sender, receiver and tag."""

    def __init__(self, ranks: Sequence[int]) -> None:
        self.ranks, self.size = list(ranks), max(ranks) + 1
        self.boxes: dict[tuple[int, int, int], deque[Floats]] = defaultdict(deque)
        self.told: list[Any] = [None] * self.size
        #: Words sent from a rank to another.
        self.words: dict[tuple[int, int], int] = defaultdict(int)
        self.messages: dict[tuple[int, int], int] = defaultdict(int)
        self.barrier = threading.Barrier(self.size, timeout=300)
        self.lock = threading.Lock()


class _Incoming:
    """A message that comes some times later than it was sent, by how often it is asked for."""

    def __init__(self, post: Post, key: tuple[int, int, int], words: int, place: Floats | None) -> None:
        self.words = np.empty(words, np.float32) if place is None else place
        self._box, self._lock = post.boxes[key], post.lock
        self._generator = np.random.default_rng(key)
        self.begin()

    def begin(self) -> None:
        self._come, self._late = False, int(self._generator.choice([0, 0, 1, 5, 30]))
        self.words[...] = np.nan

    def arrived(self) -> bool:
        with self._lock:
            if not self._come and self._box:
                self._late -= 1
                if self._late < 0:
                    words = self._box.popleft()
                    self.words[:len(words)] = words
                    self._come = True
        return self._come


class _Outgoing:
    def __init__(self, post: Post, key: tuple[int, int, int], words: int) -> None:
        self.words = np.empty(words, np.float32)
        self._box, self._lock = post.boxes[key], post.lock
        self._post, self._pair = post, key[:2]

    def send(self, words: int | None = None) -> None:
        with self._lock:
            self._box.append(self.words[:words].copy())
            self._post.words[self._pair] += len(self._box[-1])
            self._post.messages[self._pair] += 1
        self.words[...] = np.nan


class ThreadMessages:
    """As :class:`~plinth.runtime.mpi_messages.MpiMessages`, between threads."""

    def __init__(self, post: Post, own: int) -> None:
        self._post, self.own = post, own
        self.ranks, self.size, self.neighbours = post.ranks, post.size, post.size
        self._incoming: list[_Incoming] = []

    def incoming(self, rank: int, tag: int, words: int, place: Floats | None = None) -> _Incoming:
        with self._post.lock:
            self._incoming.append(_Incoming(self._post, (rank, self.own, tag), words, place))
        return self._incoming[-1]

    def outgoing(self, rank: int, tag: int, words: int) -> _Outgoing:
        with self._post.lock:
            return _Outgoing(self._post, (self.own, rank, tag), words)

    def all_reduce(self, ranks: Sequence[int], words: int) -> None:
        pass

    @property
    def expected(self) -> int:
        return len(self._incoming)

    def begin(self, messages: Sequence[int] | None = None) -> None:
        for number in range(self.expected) if messages is None else messages:
            self._incoming[number].begin()

    def wait(self, done: Callable[[], bool]) -> None:
        for _ in range(1_000_000):
            if done():
                return
            threading.Event().wait(1e-5)
        raise AssertionError("nothing comes")

    def told(self, value: Any) -> list[Any]:
        self._post.told[self.own] = value
        self._post.barrier.wait()
        told = list(self._post.told)
        self._post.barrier.wait()
        return told

    def gathered(self, values: Floats, counts: Sequence[int]) -> Floats:
        parts = self.told(values)
        assert [len(part) for part in parts] == list(counts)
        return np.concatenate(parts)


@dataclass(frozen=True)
class NumpyTraining:
    """Some steps of a network under a plan in numpy."""

    network: Network
    plan: Plan
    preset: str
    rule: UpdateRule = RULE
    steps: int = 2

    def __call__(self, transport: Transport) -> tuple[dict[int, dict[str, Floats]], dict[str, Any]]:
        """Train on the dies of a rank of MPI: what :meth:`on` says."""
        return self.on(MpiMessages(transport))  # type: ignore[arg-type]

    @property
    def step(self) -> Step:
        """What is done each step."""
        return step_of(replace(self.plan.sharding, rule=self.rule), preset(self.preset))

    def on(self, messages: Any) -> tuple[dict[int, dict[str, Floats]], dict[str, Any]]:
        """Train: the memory of each of the process's dies after the last step, and all that the host has read."""
        network, plan = self.network, self.plan
        data = random_data(network, self.steps * plan.batch, np.random.default_rng(3))
        executor = NumpyExecutor(self.step, messages)
        training = Session(network, data, executor.view, executor, None, None, plan.batch, 0)
        training.load_parameters(initial_parameters(network, 0))
        list(training.epoch(0))
        read = {"losses": training.losses, "rows": training.rows,
                "parameters": training.parameters(executor), "kept": training.kept(executor)}
        return {die: memory._places for die, memory in executor._step.memories.items()}, read


def in_threads(training: NumpyTraining, ranks: Sequence[int]) -> tuple[list[Any], Post]:
    """A training run of which each thread has the dies of its rank: what it returns in each, and the words that each
    pair of ranks has sent."""
    post = Post(ranks)
    with ThreadPoolExecutor(post.size) as pool:
        outcomes = list(pool.map(lambda own: training.on(ThreadMessages(post, own)), range(post.size)))
    return outcomes, post
