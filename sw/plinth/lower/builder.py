"""Builds a task graph for one die: memory map, descriptors, dependencies.

Every engine finishes its tasks in order, so one update counter per engine is enough: counter e counts the
tasks that engine e has completed, and "task n of engine e is done" is ``counter[e] >= n + 1``. Tiles that other
dies send advance a counter of their exchange. A task names the places that it reads and writes; from them the
builder derives its waits (:class:`plinth.step.accesses.Accesses`), at most one for each counter.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from plinth.buffers import STATIC_BASE, Buffer
from plinth.driver.program import NamedDescriptor
from plinth.errors import UserError
from plinth.step.accesses import Accesses
from plinth.units import largest
from plinth_hw.isa import layout
from plinth_hw.isa.descriptors import DESCRIPTOR_WORDS, WAITS, TaskHeader
from plinth_hw.isa.limits import TASK_DIES, field_most
from plinth_hw.isa.operations import OPERATIONS, CollectiveOperation, Engine, TransferOperation
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.tasks import BODIES


class DieMemoryError(UserError):
    """A graph does not fit the memory of a die.

    Attributes
    ----------
    needed_words : int
        Words that it takes, at least: tasks and records are counted only where its places fit.
    """

    def __init__(self, message: str, needed_words: int) -> None:
        super().__init__(message)
        self.needed_words = needed_words


@dataclass
class GraphBuilder:
    """Collects buffers and tasks of one die."""

    parameters: DieParameters
    tasks: list[NamedDescriptor] = field(default_factory=list)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    #: Words of each, with its copies.
    sizes: dict[str, int] = field(default_factory=dict)
    #: First free word.
    end: int = 0
    #: For each moving base register: its first place and the words from one place to the next.
    moving: dict[int, tuple[int, int]] = field(default_factory=dict)
    _pending: list[tuple[str, Engine, dict[str, Any], dict[str, Any]]] = field(default_factory=list)
    _finished: dict[Engine, int] = field(default_factory=dict)
    _arrived: dict[int, int] = field(default_factory=dict)
    #: Counter and value that a task waits for.
    _accesses: Accesses[tuple[int, int]] = field(default_factory=Accesses)

    def allocate(self, name: str, rows: int, columns: int, *, base: int = STATIC_BASE, copies: int = 1,
                 packed: bool = False, dense: bool = False) -> Buffer:
        """Reserve beat-aligned memory; rows start on beats.

        With ``dense`` a row follows the other without a gap. With ``copies`` the place is followed by that many
        minus one more like it, which a moving base register steps through; the buffer's address is then 0 from
        that base.
        """
        beat = self.parameters.beat_words
        width = -(-columns // 2) if packed else columns
        stride = width if dense else -(-width // beat) * beat
        words = -(-rows * stride // beat) * beat
        place = Buffer(name, self.end if base == STATIC_BASE else 0, rows, columns, stride, base, packed)
        if base != STATIC_BASE:
            self.moving[base] = (self.end, words)
        self.buffers[name] = place
        self.sizes[name] = words * copies
        self.end += words * copies
        return place

    def add(self, name: str, engine: Engine, operation: Any, body: Mapping[str, Any], *,
            reads: Iterable[Buffer] = (), writes: Iterable[Buffer] = (), after: Iterable[tuple[int, int]] = (),
            remote: tuple[int, int] | None = None) -> None:
        """Append a task; its waits follow from the buffers it names, and from ``after``: (counter, value).

        Once done it advances a counter of another die as well, if ``remote`` says so: (die, counter).
        """
        self.add_parts([name], engine, operation, [body], reads=reads, writes=writes, after=after, remote=remote)

    def add_parts(self, names: Iterable[str], engine: Engine, operation: Any, bodies: Iterable[Mapping[str, Any]], *,
                  reads: Iterable[Buffer] = (), writes: Iterable[Buffer] = (), after: Iterable[tuple[int, int]] = (),
                  remote: tuple[int, int] | None = None) -> None:
        """Append tasks that together do what :meth:`add` says of one, writing different words: they do not wait for
        each other."""
        self._check_engine(engine, names := list(names))
        reads, writes = list(reads), list(writes)
        needed: dict[int, int] = dict(after)
        for counter, value in self._accesses.needed(reads, writes):
            needed[counter] = max(needed.get(counter, 0), value)
        waits = self._joined(sorted(needed.items()))
        header = {
            "engine": engine, "operation": operation.value, "advance_enable": 1, "advance": engine.value,
            "wait_enable": (1 << len(waits)) - 1,
            "wait_counter": [other for other, _ in waits] + [0] * (WAITS - len(waits)),
            "wait_value": [value for _, value in waits] + [0] * (WAITS - len(waits)),
        }
        if remote is not None:
            header |= {"remote_enable": 1, "remote_die": remote[0], "remote_counter": remote[1]}
        tasks = [(name, engine, dict(header), dict(body)) for name, body in zip(names, bodies, strict=True)]
        number = self._finished.get(engine, 0) + len(tasks)
        self._finished[engine] = number
        self._accesses.touch(reads, writes, (engine.value, number))
        self._pending += tasks

    def _check_engine(self, engine: Engine, names: list[str]) -> None:
        if engine not in self.parameters.engines:
            raise UserError(f"dies of preset {self.parameters.name!r} have no {engine.name.lower()} engine for task "
                            f"{names[0]!r}; choose another network, or a preset that has one, such as fpga-demo")

    def done(self, engine: Engine) -> tuple[int, int]:
        """Counter and value that say that all tasks of an engine so far are done."""
        return engine.value, self._finished.get(engine, 0)

    def advanced(self, counter: int, times: int) -> tuple[int, int]:
        """Other dies advance a counter so many times; counter and value that say that they have."""
        self._arrived[counter] = self._arrived.get(counter, 0) + times
        return counter, self._arrived[counter]

    def expect(self, buffers: Iterable[Buffer], counter: int, tiles: int) -> None:
        """Other dies send ``tiles`` tiles into these places in all; each advances ``counter`` of this die."""
        self._accesses.arrive(buffers, self.advanced(counter, tiles))

    def _joined(self, waits: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Waits, no more than a task can have: a copy of one word waits for some in its place."""
        while len(waits) > WAITS:
            transfer = Engine.TRANSFER.value
            waits.sort(key=lambda wait: wait[0] != transfer)
            first, waits = waits[:WAITS], waits[WAITS:]
            if "join" not in self.buffers:
                self.allocate("join", 1, 2)
            place = self.buffers["join"]
            number = self._finished.get(Engine.TRANSFER, 0) + 1
            self._finished[Engine.TRANSFER] = number
            self._pending.append(("join", Engine.TRANSFER, {
                "engine": Engine.TRANSFER, "operation": TransferOperation.COPY.value, "advance_enable": 1,
                "advance": transfer, "wait_enable": (1 << WAITS) - 1,
                "wait_counter": [other for other, _ in first], "wait_value": [value for _, value in first]},
                {"source": place.pointer, "destination": place.part("join", 1, 1, 1).pointer,
                 "columns": 1, "rows": 1, "planes": 1}))
            waits.append((transfer, number))
        return sorted(waits)

    @property
    def count(self) -> int:
        """The number of tasks that the graph has so far."""
        return len(self._pending)

    def finish(self, *, record: bool) -> list[NamedDescriptor]:
        """Pack the descriptors; the last one ends the graph.

        Raises
        ------
        UserError
            If a task has a number that its field cannot hold.
        """
        if not self._pending:
            raise ValueError("A graph needs at least one task")
        tasks, tags = [], field_most(TaskHeader, "tag")
        for index, (name, engine, header, body) in enumerate(self._pending):
            header.update(tag=index & tags, record=int(record), last=int(index + 1 == len(self._pending)))
            try:
                tasks.append(NamedDescriptor(name, engine, pack(engine, header, body)))
            except ValueError as error:
                raise UserError(f"task {name!r} does not fit its descriptor: {error}; choose a smaller network or "
                                "batch, or more dies") from None
        self.tasks = tasks
        return tasks

    def check_dies(self, number: int, dies: int) -> None:
        """Refuse tasks of die ``number`` that name a die beyond an array of ``dies``.

        Raises
        ------
        UserError
            If one does.
        """
        for name, _, header, body in self._pending:
            for where, key in TASK_DIES:
                named = (header if where is TaskHeader else body).get(key, 0)
                if named >= dies:
                    raise UserError(f"task {name!r} of die {number} has die {named} as its {key}, but the array has "
                                    f"dies 0 to {dies - 1}; make the plan anew for this array")

    @property
    def pending(self) -> Sequence[tuple[str, Engine, Mapping[str, Any], Mapping[str, Any]]]:
        """Name, engine, header and body of the tasks so far."""
        return self._pending

    def sends(self, nexts: dict[int, int]) -> Iterator[tuple[int, int, int]]:
        """Which tasks send, by their places, in which traffic class (docs/network.md), and to whom.

        Parameters
        ----------
        nexts : dict of int to int
            By group the next die of its ring, as the graphs before have left it; this one's tasks go on from there.
        """
        for place, (_, engine, header, body) in enumerate(self._pending):
            if header.get("remote_enable"):
                yield place, 0, header["remote_die"]
            if engine is Engine.COLLECTIVE:
                if header["operation"] == CollectiveOperation.SET_GROUP.value:
                    nexts[body["group"]] = body["next_die"]
                elif header["operation"] != CollectiveOperation.SET_ROUTE.value:
                    yield place, 1 + body["message"] % self.parameters.reduce_blocks, nexts[body["group"]]
            elif engine is Engine.TRANSFER and body.get("remote"):
                first, step = body.get("destination_die", 0), body.get("member_step", 0)
                yield from ((place, self.parameters.transfer_class, first + number * step)
                            for number in range(max(1, body.get("members", 0))))

    @property
    def advances(self) -> dict[int, int]:
        """How far each update counter moves in one run of the graph."""
        return {engine.value: count for engine, count in self._finished.items()} | self._arrived


def pack(engine: Engine, header: Mapping[str, Any], body: Mapping[str, Any]) -> tuple[int, ...]:
    """Header and body as descriptor words, low word first."""
    words = layout.pack(TaskHeader, header) + layout.pack(BODIES[OPERATIONS[engine](header["operation"])], body)
    return words + (0,) * (DESCRIPTOR_WORDS - len(words))


def require_memory(parameters: DieParameters, needed_words: int, available_words: int, sizes: Mapping[str, int]
                   ) -> None:
    """Raise ``DieMemoryError`` if a graph does not fit the die's memory; ``sizes`` are words of its places, by name."""
    if needed_words > available_words:
        size = parameters.word_bits // 8
        remedy = (f"give memory_mib= at least {-(-size * needed_words // 2**20)} MiB" if parameters.axi_ports else
                  "block RAM has no more; take a smaller batch or network, or more dies")
        places = {name: size * words for name, words in sizes.items()}
        raise DieMemoryError(f"the network needs {size * needed_words} bytes of die memory but a die has "
                             f"{size * available_words}: {largest(places)}; {remedy}", needed_words)
