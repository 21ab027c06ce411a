"""Predicted times of tasks on one die: its engines, each in order, and the control that fetches for them."""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from plinth.machine.control import BODIES, HEADERS, body_cycles
from plinth.machine.die import Cycles, DieCycles
from plinth.machine.memory import MEMORY_LATENCY
from plinth_hw.isa.operations import Engine

#: Engines of a die.
ENGINES = ("matrix", "vector", "transfer", "collective", "optimiser")
#: Largest share of what memory writes, and of its rate, that the others take from a task: it serves requests in turn,
#: mostly of two engines.
MOST_SHARE = 0.5


class Taken(NamedTuple):
    """What others take from a task while it runs: shares of memory's read channel, of its write channel and of its
    rate; and beats that they read, for which it waits in all at most."""

    read: float
    write: float
    rate: float
    beats: float


class Moved(NamedTuple):
    """What a task does to memory: words that it reads and writes, its turns there, and cycles that it takes more where
    each beat that it reads takes two."""

    reads: float
    writes: float
    turns: float = 0.0
    exposed: float = 0.0


class DieEngines:
    """The engines of a die and its control.

    Parameters
    ----------
    shares : sequence of Taken
        For each task, what other engines take while it runs; empty: nothing.
    speed : float
        Cycles of tasks are divided by it.
    """

    def __init__(self, machine: DieCycles, shares: Sequence[Taken], speed: float):
        self.speed = speed
        control = machine.control
        self.period, self.issue = control["fetch"], control["issue"]
        #: Cycles in which a body goes to its engine.
        self.body = {name: body_cycles(machine.parameters, Engine[name.upper()]) for name in ENGINES}
        self.fetched = 0.0
        self.shares = shares
        #: Of the last tasks of each engine; before there are so many, places are free from the beginning.
        self.starts = {engine: deque([0.0] * BODIES, maxlen=BODIES) for engine in ENGINES}
        self.ends = {engine: deque([0.0] * HEADERS, maxlen=HEADERS) for engine in ENGINES}
        #: End of each engine's last task.
        self.last = dict.fromkeys(ENGINES, 0.0)
        #: Engine, start and end of each task; words that it reads and writes, and its turns.
        self.tasks: list[tuple[str, float, float, tuple[float, float, float]]] = []
        #: Of all reductions.
        self.latencies = 0.0
        #: End of each reduce block's last reduction.
        self.blocks = [0.0] * machine.parameters.reduce_blocks
        #: When reductions are on the links, one behind the other from and to, and how much later the last ends.
        self.reductions: list[tuple[float, float, float]] = []
        #: By lane, when all tiles so far have left the links.
        self.sent: dict[int, float] = {}
        self._loaded = 0.0
        #: When the vector engine has computed all so far.
        self.computed = 0.0
        #: Words that memory moves a cycle, and each of its channels.
        self.rate, self.beat = float(machine.parameters.memory_words_per_cycle), machine.parameters.beat_words
        self._stored = [0.0, 0.0]

    def _start(self, engine: str, ready: float) -> float:
        """When a task may start."""
        self.fetched = max(self.fetched, self.starts[engine][0], self.ends[engine][0]) + self.period
        return max(ready + self.issue, self.fetched + self.body[engine])

    def _moved(self, reads: float, writes: float, count: int = 1) -> float:
        """Cycles that memory takes at least for words of the task that starts, one of some, beside what other engines
        move."""
        beats = reads / self.beat
        if not self.shares:
            return max(beats, writes / self.beat, (reads + writes) / self.rate)
        read, write, rate, others = self.shares[len(self.tasks)]
        return max(min(beats / (1 - read), beats + others / count), writes / self.beat / (1 - write),
                   (reads + writes) / self.rate / (1 - rate))

    def _slower(self, moved: Moved, cycles: float, count: int) -> float:
        """Cycles that the task that starts, one of some, takes more beside others, of so many alone."""
        more = self._moved(moved.reads, moved.writes, count) - cycles
        if moved.exposed and self.shares:
            read, _, _, others = self.shares[len(self.tasks)]
            more = max(more, min(moved.exposed * read / (1 - read), others / count))
        return max(0.0, more)

    def _end(self, engine: str, start: float, end: float, words: Moved, count: int = 1, parts: int = 1) -> float:
        """``count`` equal tasks of some words, of ``parts`` descriptors each, went on from a start to an end; those
        behind them wait for their places."""
        begin = max(start, self.last[engine])
        self.tasks.append((engine, begin, end, (count * words.reads, count * words.writes, count * words.turns)))
        self.last[engine] = end
        count *= parts
        if count == 1:
            self.starts[engine].append(begin)
            self.ends[engine].append(end)
            return end
        starts, ends, each = self.starts[engine], self.ends[engine], (end - begin) / count
        for place in range(max(0, count - BODIES), count):
            starts.append(begin + place * each)
        for place in range(max(0, count - HEADERS), count):
            ends.append(begin + (place + 1) * each)
        self.fetched = max(self.fetched + (count - 1) * self.period,
                           begin + (count - 1 - BODIES) * each if count > BODIES else 0.0,
                           begin + (count - HEADERS) * each if count > HEADERS else 0.0)
        return end

    def task(self, engine: str, ready: float, cycles: Cycles, words: Moved, count: int = 1, parts: int = 1) -> float:
        """End of ``count`` equal products, tiles or updates of some words, each of ``parts`` descriptors."""
        alone, row = cycles
        start, more = self._start(engine, ready), self._slower(words, row, count)
        alone, row = (alone + more) / self.speed, (row + more) / self.speed
        end = start + alone + (count - 1) * max(row, self.period) if count > 1 else start + alone
        return self._end(engine, start, max(end, self.last[engine] + count * row), words, count, parts)

    def vector(self, ready: float, stages: tuple[float, float, float], words: Moved, count: int = 1,
               serial: bool = False) -> float:
        """End of ``count`` vector tasks; ``serial``: each waits for the one before."""
        load, compute, store = stages
        start = self._start("vector", ready)
        # Latencies do not grow with what others move.
        load = max(load, MEMORY_LATENCY + self._moved(words.reads, 0.0, count)) / self.speed
        store = max(store, MEMORY_LATENCY + self._moved(0.0, words.writes, count)) / self.speed
        compute /= self.speed
        start = max(start, self._loaded, self._stored[0])
        self._loaded = start + load
        self.computed = max(self._loaded, self.computed) + compute
        if count > 1:
            whole = load + compute + store
            self.computed += (count - 1) * (whole + self.issue if serial else
                                             max(load, compute, store, whole / 2, self.period))
        end = max(self.computed, self.last["vector"]) + store
        self._stored = [self._stored[1], end]
        return self._end("vector", start, end, words, count)

    def reduce(self, ready: float, cycles: float, latency: float, words: Moved, block: int,
               linked: bool = True) -> float:
        """End of a reduction whose words take some cycles on the links, which it shares with others; or of a single
        die, which takes none there. A block works on one after the other, latency and all."""
        start = self._start("collective", ready)
        begin = max(start, self.last["collective"], self.blocks[block])
        busy = begin + max(cycles, self._moved(words.reads, words.writes))
        self._end("collective", begin, busy, words)
        self.latencies += latency
        self.blocks[block] = busy + latency
        self.ends["collective"][-1] = busy + latency
        if linked and self.reductions and begin <= self.reductions[-1][1]:
            first, last, tail = self.reductions[-1]
            self.reductions[-1] = first, busy, max(latency, last + tail - busy)
        else:
            self.reductions.append((begin if linked else busy, busy, latency))
        return busy + latency

    def tiles(self, ready: float, cycles: Cycles, words: Moved, count: int, link: float, lane: int = 0,
              held: float = 0.0, first: float = 0.0) -> float:
        """When ``count`` equal tiles to other dies have left the fullest link on their way, which they are on for
        ``link`` cycles in all, the first flit ``first`` cycles after the start; the die is done with them while routers
        still hold what takes ``held`` cycles there. They follow the tiles before of the same lane, and take turns with
        reductions, which end as much later."""
        done = self.task("transfer", ready, cycles, words, count)
        end = max(done, max(self.tasks[-1][1] + first, self.sent.get(lane, 0.0)) + link)
        start, later = end - link, 0.0
        number = len(self.reductions)
        while number and self.reductions[number - 1][1] > start:
            number -= 1
        for place in range(number, len(self.reductions)):
            begin, last, tail = self.reductions[place]
            begin, last = begin + later, last + later
            more = max(0.0, min(end - max(start, begin), last - max(start, begin)))
            end, later = end + more, later + more
            self.reductions[place] = begin, last + more, tail
        self.last["collective"] += later
        self.sent[lane] = end
        self.last["transfer"] = self.ends["transfer"][-1] = max(done, end - held)
        return end

    @property
    def reduced(self) -> float:
        """End of the last reduction."""
        return max((last + tail for _, last, tail in self.reductions), default=0.0)

    @property
    def end(self) -> float:
        """When all is done."""
        return max(self.reduced, *self.last.values())

    def next_shares(self) -> list[Taken]:
        """For each task, the shares of memory's channels, and of its rate, that other engines took while it ran; if it
        had shares already, the mean of both."""
        starts, ends = (np.array([task[place] for task in self.tasks]) for place in (1, 2))
        words = np.array([task[3] for task in self.tasks]).reshape(-1, 3)
        engines = np.array([ENGINES.index(task[0]) for task in self.tasks])
        total, turn = np.zeros((len(self.tasks), 2)), np.zeros(len(self.tasks))
        for engine in range(len(ENGINES)):
            mine = engines == engine
            if not mine.any():
                continue
            places = np.column_stack([starts[mine], ends[mine]]).ravel()
            during = []
            for kind in range(3):
                sums = np.concatenate([[0.0], np.cumsum(words[mine, kind])])
                moved = np.column_stack([sums[:-1], sums[1:]]).ravel()
                during.append(np.where(mine, 0.0, np.interp(ends, places, moved) - np.interp(starts, places, moved)))
            total += np.column_stack(during[:2])
            turn += np.divide(during[0], during[2], out=np.zeros(len(turn)), where=during[2] > 0)
        length = np.maximum(ends - starts, 1.0)
        shares = np.column_stack([total[:, 0] / self.beat, total[:, 1] / self.beat, total.sum(axis=1) / self.rate])
        # Of what is read the others get no more than their turns; one that reads nothing would have a beat in its own.
        own = np.divide(words[:, 0], words[:, 2], out=np.full(len(words), float(self.beat)), where=words[:, 2] > 0)
        most = np.column_stack([turn / (turn + own), *2 * [np.full(len(own), MOST_SHARE)]])
        shares = np.column_stack([np.minimum(shares / length[:, None], most), total[:, 0] / self.beat])
        if self.shares:
            shares = (shares + np.array(self.shares)) / 2
        return [Taken(*share) for share in shares.tolist()]
