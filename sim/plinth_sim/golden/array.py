"""The golden model as an array of devices.

Whatever order the contract of the scheduler leaves open cannot show in memory, because tasks that touch the same words
are ordered by their waits; a graph without an order that ends is reported as TIMEOUT. So dies may as well live in
several processes, each with an array of its own that owns some of them: the bits are those of one array.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from plinth_hw.isa.formats import word_type
from plinth_hw.isa.operations import Engine, ErrorCode
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.registers import Register
from plinth_sim.golden.device import SCHEDULER, DescriptorError, FetchedTask, GoldenDevice
from plinth_sim.golden.ring import SETTINGS, CollectiveModel
from plinth_sim.golden.transport import Failure, Message, Met, PeerLostError, Transport

#: Seconds for which an array whose dies all wait listens to the dies of other processes.
PATIENCE_SECONDS = 120.0


class GoldenArray:
    """Dies that run on the golden model.

    Parameters
    ----------
    parameters : DieParameters
        Of every die.
    dies : int
        Number of dies of the whole array.
    memory_words : int
        Memory of each die.
    transport : Transport or None
        The way to and from the dies of other processes, which says whose they are; default: all dies live in this one.
    patience_seconds : float
        How long it listens to others while all its dies wait; then they report TIMEOUT.

    Raises
    ------
    ValueError
        If the processes of the transport do not own each die once, or one owns none.
    """

    def __init__(self, parameters: DieParameters, dies: int, memory_words: int, *,
                 transport: Transport | None = None, patience_seconds: float = PATIENCE_SECONDS):
        self.parameters = parameters
        self.size = dies
        self._processes = [sorted(process) for process in transport.processes] if transport else [list(range(dies))]
        self._own = transport.own if transport else 0
        self._process_of = {die: number for number, process in enumerate(self._processes) for die in process}
        if (sorted(die for process in self._processes for die in process) != list(range(dies))
                or not all(self._processes)):
            raise ValueError(f"Processes must own dies 0 to {dies - 1}, each die once and each process at least one, "
                             f"not {self._processes!r}")
        self.numbers: Sequence[int] = self._processes[self._own]
        kind = word_type(parameters.memory_format)
        self.dies = [GoldenDevice(number, dies, parameters, np.zeros(memory_words, dtype=kind),
                                  counters=[0] * parameters.counters) for number in self.numbers]
        self._by_number = dict(zip(self.numbers, self.dies, strict=True))
        self._collectives = [CollectiveModel(die) for die in self.dies]
        self._transport = transport
        self._patience_seconds = patience_seconds
        self._told = False
        #: Processes that have come to the next meeting, and what they have told.
        self._met: dict[int, Any] = {}
        #: What they have sent since; after the meeting, what is to be looked at next.
        self._later: deque[Message] = deque()
        self._kept: deque[Message] = deque()

    @property
    def in_step(self) -> bool:
        """Dies of other processes run whenever these do."""
        return len(self._processes) == 1

    def wait(self, limit_cycles: int, dies: Iterable[int] | None = None) -> int:
        """Run all started graphs until those of all owned dies, or of ``dies``, have ended, or one has failed; returns
        0, for there are no cycles here.

        Raises
        ------
        PeerLostError
            If a process of other dies is gone.
        """
        watched = [self._by_number[number] for number in (self.numbers if dies is None else dies)]
        with self._giving_up():
            while self._run(watched) and self._listen(self._patience_seconds):
                pass
            for die in watched:
                if die.running:
                    die.hang()
            self._tell()
        if len(self._processes) == 1:
            self._settle()
        return 0

    def meet(self, told: Any = None) -> list[Any]:
        """Come to a meeting of all processes, and tell the others something: return when they have come, or a die of
        this process has failed. Returns what each process has told, in their order; of those that have not come None.

        What they have sent before is there then; what they send after it waits until this array runs again.

        Raises
        ------
        PeerLostError
            If a process of other dies is gone.
        TimeoutError
            If one does not come.
        """
        others = [number for number in range(len(self._processes)) if number != self._own]
        with self._giving_up():
            for other in others:
                self._send(Met(self.numbers[0], self._processes[other][0], told))
            while not self._tell() and (missing := [other for other in others if other not in self._met]):
                if not self._listen(self._patience_seconds):
                    for die in self.dies:
                        die.fail(ErrorCode.TIMEOUT, 0, SCHEDULER)
                    self._tell()
                    numbers = ", ".join(map(str, sorted(die for other in missing for die in self._processes[other])))
                    raise TimeoutError(f"dies {numbers} did not come to where all processes meet within "
                                       f"{self._patience_seconds:g} s")
        self._settle()
        reports = {**self._met, self._own: told}
        self._met.clear()
        self._kept.extend(self._later)
        self._later.clear()
        return [reports.get(number) for number in range(len(self._processes))]

    @contextmanager
    def _giving_up(self) -> Iterator[None]:
        """Without a process of other dies nothing goes on."""
        try:
            yield
        except PeerLostError:
            for die in self.dies:
                if die.running and any(die.queues.values()):
                    die.hang()
            with suppress(PeerLostError):
                self._tell()
            raise

    def _settle(self) -> None:
        """All that was sent has come: what nothing has needed takes effect too."""
        if not any(die.running for die in self.dies):
            for die in self.dies:
                die.settle()

    def _run(self, watched: Iterable[GoldenDevice]) -> bool:
        """Run what can run; whether a watched die waits for something yet, and none has failed."""
        while self._listen(0) or self._advance():
            pass
        for die in self.dies:
            if die.running and not any(die.queues.values()):
                die.running, die.done = False, True
        return not self._tell() and any(die.running for die in watched)

    def _listen(self, seconds: float) -> bool:
        """Take a message from another process, if one comes in time."""
        if self._kept:
            message: Message | None = self._kept.popleft()
        else:
            message = self._transport.receive(seconds) if self._transport else None
        if message is None:
            return False
        process = self._process_of[message.source]
        if process in self._met:
            self._later.append(message)
        elif isinstance(message, Met):
            self._met[process] = message.told
        else:
            self._by_number[message.destination].deliver(message)
        return True

    def _tell(self) -> bool:
        """Whether a die has failed; the first time, every other die is told, before a process that is gone is."""
        failed = [die for die in self.dies if die.failed]
        if not failed:
            self._told = False
        elif not self._told:
            self._told = True
            causes = [die for die in failed if die.registers[Register.ERROR_CODE] != ErrorCode.REMOTE.value] or failed
            lost: PeerLostError | None = None
            for number in range(self.size):
                if number != causes[0].number:
                    try:
                        self._send(Failure(causes[0].number, number))
                    except PeerLostError as error:
                        lost = error
            if lost is not None:
                raise lost
        return bool(failed)

    def _send(self, message: Message) -> None:
        """To a die of this array on the spot, to others by the transport; what is for none is lost."""
        if message.destination >= self.size:
            self._by_number[message.source].lose(message.destination)
        elif message.destination in self._by_number:
            self._by_number[message.destination].deliver(message)
        elif self._transport is not None:
            self._transport.send(message)

    def _advance(self) -> bool:
        """Run what can run once over; whether anything ran."""
        moved = False
        for die in self.dies:
            for engine in Engine:
                while die.running and die.queues[engine] and die.ready(die.queues[engine][0]):
                    task = die.queues[engine][0]
                    if engine is Engine.COLLECTIVE and task.operation not in SETTINGS:
                        break
                    try:
                        if engine is Engine.TRANSFER:
                            for tile in die.tiles(task):
                                self._send(tile)
                        else:
                            die.run(task)
                    except DescriptorError as error:
                        die.fail(error.code, task.address, engine.value)
                        break
                    self._complete(die, task)
                    moved = True
        for ring in self._collectives:
            ended, sent = ring.turn()
            for message in sent:
                self._send(message)
            for task in ended:
                self._complete(ring.die, task)
            moved |= bool(ended or sent)
        return moved

    def _complete(self, die: GoldenDevice, task: FetchedTask) -> None:
        """A finished task's counters and record."""
        advance = die.complete(task)
        if advance is not None:
            self._send(advance)
