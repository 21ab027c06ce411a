"""Two phases of tiles under different routes, which tasks set in between, while chunks go on."""

from collections import Counter
from typing import Any

import numpy as np
from tests.support.dies import ROUTING as DIE

from plinth.buffers import Buffer
from plinth.lower.builder import GraphBuilder
from plinth.lower.program import assemble, ring_setup, route_setup
from plinth_hw.isa.operations import CollectiveOperation, Engine, Traffic, TransferOperation

DIES, MEMORY_WORDS = 4, 1 << 16
#: Words of all-reduces: the first two go on while routes change.
MESSAGES = (4096, 4096, 512, 512)
#: Counters: of tiles that have come, of dies that have all of theirs, of dies whose routes are set.
TILES, QUIET, SET = len(Engine), len(Engine) + 1, len(Engine) + 2
#: Ports towards all dies of a ring: round it one way, or the other.
UP, DOWN = 0, 1


def row(port: int, die: int) -> list[int | None]:
    """The same port towards all others."""
    return [None if other == die else port for other in range(DIES)]


class Phases:
    """Tiles go round the ring one way, then the other, while chunks of an all-reduce go the first way all along.

    A die whose tiles of the first phase have all come tells the others; routes are set once all have; a die that has
    set its own tells the others again, and the second phase begins once all have. ``without``: dies tell before their
    tiles have come ("arrivals"), set routes whatever they are told ("quiet"), or one of them sends again whatever it is
    told ("set").
    """

    def __init__(self, seed: int, tiles: int = 12, without: str = ""):
        rng = np.random.default_rng(seed)
        self.builders = [GraphBuilder(DIE) for _ in range(DIES)]
        self.setup = [ring_setup(DIE, range(DIES), die, 0) for die in range(DIES)]
        #: Words that go over each port of each die.
        self.words: Counter[tuple[int, int]] = Counter()
        places = [[(builder.allocate(f"source{phase}", 1, 256), builder.allocate(f"target{phase}", tiles * DIES, 256))
                   for phase in range(2)] for builder in self.builders]
        sums = [[builder.allocate(f"sums{number}", 1, words) for number, words in enumerate(MESSAGES)]
                for builder in self.builders]
        self.used = max(builder.end for builder in self.builders)
        sends = [[(int(rng.integers(1, DIES)), int(rng.integers(1, 257))) for _ in range(2 * tiles)]
                 for _ in range(DIES)]
        comes = [[sum((die + step) % DIES == here for die, some in enumerate(sends)
                      for step, _ in some[phase * tiles:(phase + 1) * tiles]) for phase in range(2)]
                 for here in range(DIES)]
        for die, builder in enumerate(self.builders):
            route_setup(Traffic.TILES, row(UP, die), self.setup[die])
            for number in range(2):
                self._reduce(builder, sums[die][number], number)
            self._tiles(builder, die, 0, sends[die][:tiles], places[die][0], [])
            come = builder.advanced(TILES, comes[die][0])
            self._tell(builder, die, QUIET, [] if without == "arrivals" else [come])
            all_quiet = [builder.advanced(QUIET, DIES - 1), come]
            route_setup(Traffic.TILES, row(DOWN, die), builder, [] if without == "quiet" else all_quiet)
            there = builder.done(Engine.COLLECTIVE)
            for number in range(2, len(MESSAGES)):
                self._reduce(builder, sums[die][number], number)
            self._tell(builder, die, SET, [there])
            all_set = [there, builder.advanced(SET, DIES - 1)]
            self._tiles(builder, die, 1, sends[die][tiles:], places[die][1],
                        [there] if without == "set" and die == DIES - 1 else all_set)
            builder.add("all", Engine.TRANSFER, TransferOperation.COPY, self._word(builder),
                        after=[builder.advanced(TILES, comes[die][1])])
            self.words[die, UP] += 2 * (DIES - 1) * sum(MESSAGES) // DIES
        self.program = assemble(self.setup, self.builders, memory_words=MEMORY_WORDS)

    def _word(self, builder: GraphBuilder) -> dict[str, Any]:
        if "word" not in builder.buffers:
            builder.allocate("word", 1, 2)
        place = builder.buffers["word"]
        return {"source": place.pointer, "destination": place.part("other", 1, 1, 1).pointer, "columns": 1, "rows": 1,
                "planes": 1}

    def _reduce(self, builder: GraphBuilder, place: Buffer, number: int) -> None:
        builder.add(f"reduce{number}", Engine.COLLECTIVE, CollectiveOperation.ALL_REDUCE, {
            "source": place.pointer, "destination": place.pointer, "words": MESSAGES[number], "group": 0,
            "message": number})

    def _tell(self, builder: GraphBuilder, die: int, counter: int, after: list[tuple[int, int]]) -> None:
        for other in range(DIES):
            if other != die:
                builder.add(f"tell{counter}.{other}", Engine.TRANSFER, TransferOperation.COPY, self._word(builder),
                            after=after, remote=(other, counter))

    def _tiles(self, builder: GraphBuilder, die: int, phase: int, sends: list[tuple[int, int]],
               places: tuple[Buffer, Buffer], after: list[tuple[int, int]]) -> None:
        source, target = places
        for number, (step, words) in enumerate(sends):
            line = target.address + (len(sends) * die + number) * target.stride
            builder.add(f"tile{phase}.{number}", Engine.TRANSFER, TransferOperation.COPY, {
                "source": source.pointer, "destination": {"offset": line, "base": target.base}, "columns": words,
                "rows": 1, "planes": 1, "remote": 1, "destination_die": (die + step) % DIES, "arrival_enable": 1,
                "arrival": TILES}, after=after)
            way = (UP, DOWN)[phase]
            for hop in range(step if way == UP else DIES - step):
                self.words[(die + (hop if way == UP else -hop)) % DIES, way] += words
