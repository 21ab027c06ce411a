"""Golden arrays that each own some dies: in threads, or in processes that talk over pipes."""

import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.array.array import ARRAYS
from plinth.driver.driver import DieError, Driver
from plinth.driver.program import Program
from plinth.lower.training import lower_training
from plinth.network.parameters import initial_parameters
from plinth.network.zoo import NETWORKS
from plinth.plan.planning import plan_network
from plinth.train.data import digits
from plinth.update.rule import UpdateRule
from plinth_hw.isa.descriptors import RECORD_WORDS
from plinth_sim.golden.array import GoldenArray
from plinth_sim.golden.transport import Message, PeerLostError, Transport

Image = NDArray[np.unsignedinteger]

#: What a transport says last to each of the others.
BYE = "bye"
Owners = Sequence[Sequence[int]]


class Mailbox:
    """A transport whose other ends put messages into ``queue``, each with the number of the share that sends it; None
    from one that has broken off.

    Parameters
    ----------
    owners : sequence of sequences of int
        The dies of each share.
    own : int
        This one's place in it.

    Members: ``others``, for each other share what puts a message into its mailbox, or raises ``OSError`` if it is gone.
    """

    def __init__(self, owners: Owners, own: int):
        self.owners = owners
        self.own = own
        self.queue: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self.others: dict[int, Callable[[Any], None]] = {}
        self._share_of = {die: share for share, dies in enumerate(owners) for die in dies}
        self._gone: set[int] = set()
        self._lost: set[int] = set()

    def send(self, message: Message) -> None:
        share = self._share_of[message.destination]
        try:
            self.others[share](message)
        except OSError as error:
            raise PeerLostError(self.owners[share]) from error

    def receive(self, seconds: float) -> Message | None:
        while True:
            waits = seconds > 0 and not self._lost and len(self._gone) < len(self.others)
            try:
                share, message = self.queue.get(waits, seconds if waits else None)
            except queue.Empty:
                if seconds > 0 and self._lost:
                    raise PeerLostError(die for share in self._lost for die in self.owners[share]) from None
                return None
            if message == BYE:
                self._gone.add(share)
            elif message is None:
                if share not in self._gone:
                    self._lost.add(share)
            else:
                return message


@contextmanager
def leaving(transport: Mailbox) -> Iterator[Mailbox]:
    """A transport that takes its leave, unless what uses it breaks off."""
    yield transport
    for send in transport.others.values():
        send(BYE)


def in_threads(owners: Owners, work: Callable[[Sequence[int], Transport], Any]) -> list[Any]:
    """``work`` of every share in a thread of its own; what it returns."""
    boxes = [Mailbox(owners, own) for own in range(len(owners))]
    for box in boxes:
        for share, other in enumerate(boxes):
            if other is not box:
                box.others[share] = lambda message, other=other, own=box.own: other.queue.put((own, message))

    def run(box: Mailbox) -> Any:
        try:
            with leaving(box):
                return work(owners[box.own], box)
        except BaseException:
            for send in box.others.values():
                send(None)
            raise

    with ThreadPoolExecutor(len(owners)) as pool:
        return list(pool.map(run, boxes))


def _pump(box: Mailbox, share: int, connection: Connection) -> None:
    """Whatever comes over a pipe goes into the mailbox; None says that the pipe has ended."""
    try:
        while True:
            box.queue.put((share, connection.recv()))
    except (EOFError, OSError):
        box.queue.put((share, None))


def _process(owners: Owners, own: int, pipes: dict[int, Connection], result: Connection,
             work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    box = Mailbox(owners, own)
    for share, connection in pipes.items():
        box.others[share] = connection.send
        threading.Thread(target=_pump, args=(box, share, connection), daemon=True).start()
    with leaving(box):
        result.send(work(owners[own], box, *arguments))


def in_processes(owners: Owners, work: Callable[..., Any], *arguments: Any) -> list[Any]:
    """``work(dies, transport, *arguments)`` of every share in a process of its own; what it returns, None where the
    process ended without."""
    context = get_context("spawn")
    pipes: list[dict[int, Connection]] = [{} for _ in owners]
    for first in range(len(owners)):
        for second in range(first):
            pipes[first][second], pipes[second][first] = context.Pipe()
    results, processes = [], []
    for own in range(len(owners)):
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_process, args=(owners, own, pipes[own], theirs, work, arguments))
        process.start()
        results.append(ours)
        processes.append(process)
        theirs.close()
    for one in pipes:
        for connection in one.values():
            connection.close()
    found = []
    for ours, process in zip(results, processes, strict=True):
        try:
            found.append(ours.recv())
        except EOFError:
            found.append(None)
        process.join()
    return found


@dataclass(frozen=True)
class Training:
    """A network of the zoo, some steps under a planner's plan on four dies of a preset.

    ``ends`` says after which step the share that owns die 0 ends its process, without a word.
    """

    network: str
    planner: str
    preset: str
    batch: int = 16
    steps: int = 3
    ends: int | None = None

    def __call__(self, dies: Sequence[int], transport: Transport | None) -> dict[int, Image] | str:
        """Train on some dies: the memory of each after the last step, but for records; or the message of an error."""
        array = replace(ARRAYS["ring-4"], preset=self.preset)
        network, parameters, data = NETWORKS[self.network], array.die_parameters(), digits()
        plan = plan_network(network, array, planner=self.planner, batch=self.batch).plan
        program = lower_training(network, plan, parameters, rule=UpdateRule(), steps=self.steps, memory_words=1 << 20)
        golden = GoldenArray(parameters, array.dies, program.memory_words, numbers=dies, transport=transport)
        driver = Driver(golden, program, memory_words=program.memory_words)

        def write(die: int, *values: Any, **place: int) -> None:
            if die in dies:
                driver.write_floats(die, *values, **place)

        first = initial_parameters(network, 0)
        for slices in program.weights.values():
            for die, buffer in enumerate(slices.buffers):
                if buffer.columns:
                    write(die, buffer, slices.cut(slices.flats.join(first), die)[None])
        for step in range(self.steps):
            samples = np.arange(step * self.batch, (step + 1) * self.batch)
            for tensor in program.inputs:
                tensor.spread(data.train_x[samples], partial(write, place=step))
            program.targets.spread(data.targets(samples), partial(write, place=step))
        try:
            for step in range(self.steps):
                if step == self.ends and 0 in dies:
                    os._exit(1)
                driver.step(step)
        except DieError as error:
            return str(error)
        return memories(golden, program)


def memories(array: GoldenArray, program: Program) -> dict[int, Image]:
    """The memory of each die of an array, but for the completion records, whose order is free."""
    found = {}
    for number, die in zip(array.numbers, array.dies, strict=True):
        found[number] = die.read_memory(0, len(die.memory))
        records = die.parameters.words_of(RECORD_WORDS) * len(program.step[number].tasks)
        found[number][program.records:program.records + records] = 0
    return found
