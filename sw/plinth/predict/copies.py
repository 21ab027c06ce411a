"""What a tile costs the transfer engine, links and memory: docs/memory.md, docs/network.md."""

from functools import lru_cache
from typing import NamedTuple

from plinth_hw.isa.parameters import DieParameters

#: Latency of a read, and of a write response, that the formulas assume, in cycles.
MEMORY_LATENCY = 50
#: Beats that a transfer engine has under way, and cycles beside memory's latency until the place of one is free again.
BEATS, BEAT_CYCLES = 61, 16
#: Cycles from a copy's start to its first flit.
FIRST_FLIT = MEMORY_LATENCY + 11
#: Cycles in which a router that does not look ahead looks up the route of a packet.
LOOKUP_CYCLES = 3


def buffered(parameters: DieParameters, links: int = 0) -> int:
    """Flits that routers hold between a die and another, so many links away: in the buffer of the first, and in those
    behind the links."""
    return parameters.inject_buffer_flits + links * parameters.link_buffer_flits


def waiting(parameters: DieParameters) -> int:
    """Flits that wait for the network behind a die's engine."""
    return parameters.leaving_flits * parameters.within.flit_words // parameters.flit_words


@lru_cache(maxsize=1 << 12)
def _units(unit: int, columns: int, stride: int, at: int) -> float:
    """Units of so many words that a row lies in, on the average; those of rows that follow each other are shared."""
    if stride == columns:
        return columns / unit
    return sum(-(-((at + row * stride) % unit + columns) // unit) for row in range(unit)) / unit


@lru_cache(maxsize=1 << 12)
def _steps(unit: int, columns: int, source: tuple[int, int], target: tuple[int, int]) -> float:
    """Cycles in which a row is turned from its places of flits in the source to those in the target, by stride and
    first word of both: a flit a cycle, and a slot before it where the source lies higher."""
    found = 0
    for row in range(unit):
        begin, end = ((at + row * stride) % unit for stride, at in (source, target))
        slots, flits = -(-(begin + columns) // unit), -(-(end + columns) // unit)
        found += flits + (begin > end and (slots > 1 or flits > 1))
    return found / unit


class Copy(NamedTuple):
    """A tile: ``rows`` of ``columns`` words; ``source`` and ``target`` words from one row to the next, and the places
    in beats where the first begins. Rows that follow each other share flits and beats."""

    rows: int
    columns: int
    source: int
    target: int
    source_at: int = 0
    target_at: int = 0

    @classmethod
    def part(cls, rows: int, columns: int) -> "Copy":
        """A tile that lands as a part of wider rows: what tables hold."""
        return cls(rows, columns, columns, 4 * columns)

    def flits(self, parameters: DieParameters) -> float:
        """Flits that it becomes, each of which takes a cycle where it lands."""
        return self.rows * _units(parameters.flit_words, self.columns, self.target, self.target_at)

    def packets(self, parameters: DieParameters) -> float:
        """Packets that it becomes."""
        if self.target == self.columns:
            return max(1.0, self.rows * self.columns / parameters.chunk_words)
        return float(self.rows * -(-self.columns // parameters.chunk_words))

    def held(self, parameters: DieParameters) -> float:
        """Share of its flits that its die can hold when the copy ends."""
        return min(1.0, (waiting(parameters) + buffered(parameters)) / self.flits(parameters))

    def read(self, parameters: DieParameters) -> float:
        """Words of the beats read."""
        beat = parameters.beat_words
        return beat * self.rows * _units(beat, self.columns, self.source, self.source_at)

    def written(self, parameters: DieParameters) -> float:
        """Words of the beats written."""
        beat = parameters.beat_words
        return beat * self.rows * _units(beat, self.columns, self.target, self.target_at)

    def cycles(self, parameters: DieParameters) -> float:
        """Cycles in which the engine makes its flits: as it turns them, or as memory gives beats of them."""
        source, target = (self.source, self.source_at), (self.target, self.target_at)
        steps = _steps(parameters.within.flit_words, self.columns, source, target)
        beats = self.read(parameters) / parameters.beat_words
        return max(self.rows * steps, beats * (MEMORY_LATENCY + BEAT_CYCLES) / BEATS)


def lookups(parameters: DieParameters, packets: float, flits: float, hops: int) -> float:
    """Cycles in which the input behind a link looks up the routes of a tile's packets that go on, while all dies send
    over as many links.

    A router that looks ahead knows all routes in time. Any other knows that of a packet that goes where the last one
    went that did not end there. Over two links all do so; over more, those of several dies come in turn, but in runs:
    while a router looks up a route, its own die's packets leave, so that a run is as long as a lookup, and a packet
    that is shorter has its part of one.
    """
    return min(LOOKUP_CYCLES * packets, flits) if hops > 2 and not parameters.looks_ahead else 0.0


def copy_formula(parameters: DieParameters, copy: Copy, link: float | None = None) -> tuple[float, float]:
    """Cycles of a copy alone, and of a further one in a row.

    Parameters
    ----------
    link : float, optional
        Cycles that its flits take on the fullest link on their way. The copy ends when the last has left for the
        router, where some then still wait. Default: it is one within the die, which ends when all is in memory.
    """
    cycles = copy.cycles(parameters)
    if link is None:
        return MEMORY_LATENCY + 40 + cycles, MEMORY_LATENCY + 52 + cycles
    alone = FIRST_FLIT + max(cycles, link * (1 - copy.held(parameters)))
    return alone, max(MEMORY_LATENCY + 23 + cycles, link)
