"""Random transfers between dies, ordered by grants: a die grants a place to the next one that may write there."""

from typing import Any

import numpy as np
from tests.support.transforms import random_plain, random_transform

from plinth.buffers import Buffer
from plinth.driver.program import Program
from plinth.lower.builder import GraphBuilder
from plinth.lower.program import assemble
from plinth_hw.isa.operations import Engine, TransferOperation
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.winograd import MATRICES

#: Rows and columns of the buffers; rows of their index lists.
SIZE, LIST = 14, 24
#: First counters of tiles and of grants, one for each die that sends them.
TILES, GRANTS = 8, 24


class RandomTiles:
    """Task graphs of all dies.

    Parameters
    ----------
    parameters : DieParameters
    dies, seed : int
    """

    def __init__(self, parameters: DieParameters, dies: int, seed: int):
        self.parameters, self.dies = parameters, dies
        self.rng = np.random.default_rng(seed)
        self.builders = [GraphBuilder(parameters) for _ in range(dies)]
        self.pool: list[list[Buffer]] = []
        self.lists: list[Buffer] = []
        self.tokens: list[list[Buffer]] = []
        for builder in self.builders:
            self.pool.append([builder.allocate(f"b{number}", SIZE, SIZE) for number in range(3)])
            self.lists.append(builder.allocate("list", 1, LIST))
            self.tokens.append([builder.allocate(f"token{other}", 1, 1) for other in range(dies)])
        setup = []
        for _ in range(dies):
            setup.append(GraphBuilder(parameters))
            setup[-1].add("nothing", Engine.TRANSFER, TransferOperation.COPY, {
                "source": {"offset": 0, "base": 0}, "destination": {"offset": 64, "base": 0},
                "columns": 1, "rows": 1, "planes": 1})
        self.setup = setup

    def _body(self, die: int, source: Buffer, target: Buffer) -> dict[str, Any]:
        """A random tile of one buffer and a place for it in another."""
        rng = self.rng
        columns = int(rng.integers(1, SIZE + 1))
        indexed = rng.choice(["none", "gather", "scatter"])
        rows = int(rng.integers(1, (LIST if indexed != "none" else SIZE // 2) + 1))
        planes = 2 if indexed == "none" and rng.random() < 0.3 else 1
        fields: dict[str, Any] = {"columns": columns, "rows": rows, "planes": planes,
                                  "gather": int(indexed == "gather"), "scatter": int(indexed == "scatter"),
                                  "index": self.lists[die].pointer}
        for side, buffer, own in (("source", source, "gather"), ("destination", target, "scatter")):
            # Rows of an indexed side are numbered by the list, the others must fit.
            most = SIZE if indexed == own else rows
            stride = buffer.stride if indexed == own or rows <= SIZE // 2 else columns
            room = SIZE * buffer.stride - (most - 1) * stride - columns
            plane = stride * rows
            if planes == 2:
                room -= plane
            offset = int(rng.integers(0, room + 1)) if room > 0 else 0
            if room < 0:
                fields.update(rows=1, gather=0, scatter=0, planes=1)
            fields[side] = {"offset": buffer.address + offset, "base": 0}
            fields[f"{side}_row_stride"], fields[f"{side}_plane_stride"] = stride, plane
        return fields

    def transfer(self, name: str) -> None:
        """A tile from any die to any die."""
        source_die, die = (int(number) for number in self.rng.integers(0, self.dies, 2))
        source, target = (int(number) for number in self.rng.permutation(3)[:2])
        self.tile(name, source_die, self.pool[source_die][source], die, self.pool[die][target],
                  TransferOperation(int(self.rng.integers(2))))

    def transform(self, name: str) -> None:
        """Places of a map or of tiles from any die to any die, transformed."""
        source_die, die = (int(number) for number in self.rng.integers(0, self.dies, 2))
        source, target = (self.pool[where][int(number)] for where, number in zip(
            (source_die, die), self.rng.permutation(3)[:2], strict=True))
        body = {"source": source.pointer, "destination": target.pointer,
                **random_transform(self.rng, self.parameters.transforms, 6, 6, SIZE * SIZE)}
        self.tile(name, source_die, source, die, target, TransferOperation(2 + int(self.rng.integers(2))), body)

    def spread(self, name: str) -> None:
        """Tiles of a map, or blocks as they are, whose places go to several dies, in runs; perhaps the die's own as
        well."""
        rng, dies = self.rng, self.dies
        source_die, first, step = (int(number) for number in rng.integers((0, 0, 1), (dies, dies, max(2, dies))))
        body: dict[str, Any] = {"destination_row_step": 0}
        if rng.random() < 0.3:
            body = random_plain(rng, 10, SIZE * SIZE)
        while "destination_row_step" in body:
            body = random_transform(rng, self.parameters.transforms, 6, 6, SIZE * SIZE)
        places = len(MATRICES[body["down"]]) * len(MATRICES[body["across"]])
        members = int(rng.integers(1, min(places, (dies - 1 - first) // step + 1) + 1))
        each, longer = divmod(places, members)
        source, target = (int(number) for number in rng.permutation(3)[:2])
        builder, reads = self.builders[source_die], [self.pool[source_die][source]]
        others = [first + number * step for number in range(members)]
        for die in others:
            if die != source_die:
                reads.append(self._granted(name, source_die, die, self.pool[die][target]))
        builder.add(name, Engine.TRANSFER, TransferOperation(2 + int(rng.integers(2))), {
            "source": self.pool[source_die][source].pointer, "destination": self.pool[source_die][target].pointer,
            **body, "remote": 1, "destination_die": first, "arrival_enable": 1, "arrival": TILES + source_die,
            "members": members, "member_places": each, "longer_members": longer, "member_step": step},
            reads=reads, writes=[self.pool[source_die][target]] if source_die in others else [])
        for die in others:
            self.builders[die].expect([self.pool[die][target]], TILES + source_die, 1)

    def _granted(self, name: str, source_die: int, die: int, target: Buffer) -> Buffer:
        """What tells a die that it may write to another's place."""
        token, mine = self.tokens[source_die][die], self.tokens[die][die]
        self.builders[die].add(f"{name}.grant", Engine.TRANSFER, TransferOperation.COPY, {
            "source": mine.pointer, "destination": token.pointer, "columns": 1, "rows": 1, "planes": 1,
            "remote": 1, "destination_die": source_die, "arrival_enable": 1, "arrival": GRANTS + die},
            reads=[mine], writes=[target])
        self.builders[source_die].expect([token], GRANTS + die, 1)
        return token

    def tile(self, name: str, source_die: int, source: Buffer, die: int, target: Buffer,
             operation: TransferOperation, body: dict[str, Any] | None = None) -> None:
        """Send a tile when its destination's die allows it."""
        builder, other = self.builders[source_die], self.builders[die]
        body = self._body(source_die, source, target) if body is None else body
        reads = [source, self.lists[source_die]]
        if die == source_die:
            builder.add(name, Engine.TRANSFER, operation, body, reads=reads, writes=[target])
            return
        token = self._granted(name, source_die, die, target)
        builder.add(name, Engine.TRANSFER, operation, {
            **body, "remote": 1, "destination_die": die, "arrival_enable": 1, "arrival": TILES + source_die},
            reads=[*reads, token])
        other.expect([target], TILES + source_die, 1)

    def finish(self, memory_words: int) -> Program:
        """The program; every die ends with a task that waits for all that others send it."""
        for die, builder in enumerate(self.builders):
            for number, place in enumerate(self.pool[die]):
                mine = self.tokens[die][die]
                builder.add(f"end{number}", Engine.TRANSFER, TransferOperation.COPY, {
                    "source": mine.pointer, "destination": mine.part("end", 1, 1, 1).pointer,
                    "columns": 1, "rows": 1, "planes": 1}, reads=[place, mine])
        return assemble(self.setup, self.builders, memory_words=memory_words)

    def fill(self, array: Any, seed: int) -> None:
        """Random numbers in the buffers, random row numbers in the lists; ``array``: of devices."""
        rng = np.random.default_rng(seed)
        for die, device in enumerate(array.dies):
            for buffer in self.pool[die]:
                device.write_memory(buffer.address, rng.standard_normal(buffer.rows * buffer.stride).astype(
                    np.float32).view(np.uint32))
            device.write_memory(self.lists[die].address, rng.integers(0, SIZE, LIST).astype(np.uint32))
