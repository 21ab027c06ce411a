"""Why dies have stopped or wait, in words: read from their registers, with the names of their tasks."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from plinth.driver.device import Device
from plinth.driver.program import DieGraph, NamedDescriptor
from plinth_hw.isa import layout
from plinth_hw.isa import registers as regs
from plinth_hw.isa.descriptors import HEADER_WORDS, TaskHeader
from plinth_hw.isa.layout import WORD_BITS
from plinth_hw.isa.operations import Engine, ErrorCode, TransferOperation
from plinth_hw.isa.registers import EngineRegister, ErrorInfo, Register, Status, WaitCounter
from plinth_hw.isa.tasks import BODIES
from plinth_hw.isa.winograd import MATRICES, places


@dataclass(frozen=True)
class Diagnosis:
    """Finds out why dies of this process have stopped or wait, from their registers and the names of their tasks.

    ``devices`` are these dies, ``running`` the graphs that they run, ``written`` the registers that the driver has
    written, all by number; ``size`` is the number of all dies, those of other processes too, ``engines`` what each has.
    """

    devices: Mapping[int, Device]
    running: Mapping[int, DieGraph]
    written: Mapping[int, Mapping[int, int]]
    memory_words: int
    size: int
    engines: Collection[Engine]

    def error(self, states: Mapping[int, int]) -> tuple[str, bool]:
        """The first cause, not the dies that were only told of it, and whether it lies in another process; ``states``:
        STATUS of each die."""
        causes = []
        for number, state in states.items():
            if state & Status.ERROR:
                die = self.devices[number]
                code = ErrorCode(die.read_register(Register.ERROR_CODE))
                address = die.read_register(Register.ERROR_TASK)
                task = self._task_at(number, address)
                name = f"task {task.name!r}" if task else "a task"
                name += f" at word {address:#x}"
                text = f"die {number}: {name} stopped with {code.name}"
                if code is ErrorCode.BAD_PACKET:
                    text = self._packet(number)
                info = layout.unpack(ErrorInfo, [die.read_register(Register.ERROR_INFO)])
                other = info.die
                if code is ErrorCode.LINK:
                    text = f"die {number} stopped with {code.name}: the link of its port {info.port} went down while " \
                           "it was in use; the die there was reset, or its wires are cut"
                if code is ErrorCode.NO_ROUTE:
                    text = f"die {number} stopped with {code.name}: a packet came for die {other}, to which no route " \
                           "leads"
                if code is ErrorCode.BAD_ROUTE and info.engine != Engine.COLLECTIVE.value:
                    text = f"die {number} stopped with {code.name}: its route to die {other} names a die or a port " \
                           "that does not exist"
                if code is ErrorCode.TIMEOUT:
                    text += f"; {self.waits([number])}"
                elsewhere = code is ErrorCode.REMOTE and other not in self.devices
                if code is ErrorCode.REMOTE:
                    text = f"die {number} was stopped by an error of die {other}"
                    text += ", whose process says more" if elsewhere else ""
                causes.append((code is ErrorCode.REMOTE, number, text, elsewhere))
        return min(causes)[2:]

    def _packet(self, number: int) -> str:
        """A tile from another die does not fit this one's memory: which tasks of which dies may have sent it."""
        text = f"die {number} stopped with {ErrorCode.BAD_PACKET.name}: a tile from another die goes beyond its memory"
        senders = []
        for source, graph in self.running.items():
            names = self._beyond(graph, source, number)
            if names:
                senders.append(f"{', '.join(names)} of die {source}")
        return f"{text}; see {'; '.join(senders)}" if senders else text

    def _beyond(self, graph: DieGraph, source: int, number: int) -> list[str]:
        """Tasks of die ``source`` whose tiles may end beyond the memory of die ``number``."""
        bases = [self.written[source].get(regs.BASES + 4 * base, 0) for base in range(regs.BASE_COUNT)]
        names = []
        for task in graph.tasks:
            if task.engine is not Engine.TRANSFER:
                continue
            operation = TransferOperation(layout.unpack(TaskHeader, task.words).operation)
            body: Any = layout.unpack(BODIES[operation], task.words[HEADER_WORDS:])
            start = bases[body.destination.base] + body.destination.offset
            if operation in (TransferOperation.TRANSFORM, TransferOperation.TRANSFORM_ADD):
                if max(body.down, body.across) >= len(MATRICES):
                    continue
                words, inside = places(body, "destination", start)
                end = int(words[inside].max(initial=0)) + body.columns
            elif operation is TransferOperation.ENCODE:
                end = start + body.rows * body.destination_row_stride
            else:
                end = (start + body.columns + (body.planes - 1) * body.destination_plane_stride
                       + (body.rows - 1) * body.destination_row_stride)
            if operation is TransferOperation.DECODE and body.skips and body.sent and body.given:
                end = max(end, bases[body.mask.base] + body.mask.offset + (body.rows - 1) * body.mask_row_stride
                          - (-body.columns // WORD_BITS))
            if (body.remote and body.destination_die == number != source
                    and (body.scatter or end > self.memory_words)):
                names.append(repr(task.name))
        return names

    def _task_at(self, number: int, address: int) -> NamedDescriptor | None:
        """The task of a die's graph that is under way, if it is one of it."""
        return self.running[number].task_at(address) if number in self.running else None

    def waits(self, numbers: Iterable[int]) -> str:
        """Say in words what dies wait for, and which processes know more."""
        texts = [text for number in numbers if (text := self._waiting(number))] or ["no engine waits"]
        if len(self.devices) < self.size:
            texts.append("other dies live in other processes")
        return "; ".join(texts)

    def _waiting(self, number: int) -> str:
        """Which engine of a die waits for which counter."""
        texts = []
        for engine in sorted(self.engines, key=lambda engine: engine.value):
            block = regs.ENGINES + regs.ENGINE_SPAN * engine.value
            die = self.devices[number]
            wait = layout.unpack(WaitCounter, [die.read_register(block + EngineRegister.WAIT_COUNTER)])
            if wait.waits:
                counter = wait.counter
                task = self._task_at(number, die.read_register(block + EngineRegister.TASK))
                name = task.name if task else "unknown task"
                texts.append(f"{engine.name.lower()} engine of die {number} ({name}) waits for counter "
                             f"{counter} to reach "
                             f"{die.read_register(block + EngineRegister.WAIT_VALUE)}, it is "
                             f"{die.read_register(regs.COUNTERS + 4 * counter)}")
        return "; ".join(texts)
