"""One record for the cost of a piece of work of any kind, on its engine of a die."""

from dataclasses import dataclass


@dataclass(frozen=True)
class WorkCost:
    """The cost of a piece of work if nothing else uses the die's memory.

    Work is ``passes`` equal ones, one behind the other: all figures are of one of them.

    Attributes
    ----------
    latency : float
        Cycles from the start until all is done.
    interval : float
        Cycles from the start until the engine takes another of its kind.
    reads, writes : float
        Words of the beats read and written in memory.
    added : float
        Words of the beats read where tiles are added to what is there: by the die that they go to.
    turn : float
        Words that it reads, by all ports that ask for some, when its turn at memory comes; 0: a chunk.
    exposed : float
        Cycles that it takes more where each beat that it reads takes two.
    passes : int
        Equal ones that the work is: a Winograd transform's images, or columns of tiles.
    parts : int
        Descriptors of a pass: the tasks that a product is cut into.
    fetch : float
        Cycles at least in which the descriptors are fetched, where engines may be faster than that; else 0.
    stages : (load, compute, store) or None
        Of vector work: cycles on the three units, which overlap with those of the tasks before and behind.
    serial : bool
        Each of several tasks waits for the one before.
    begin : float
        Cycles until the first flit leaves, where no link has anything before.
    flits, packets : float
        That leave for other dies, all of them together; where tiles stay on the die flits are as wide as what moves
        there.
    adds, multiplies : float
        Sums and products that energy counts, beside those of a product of the matrix engine: they follow from the
        share that a task has of its layer (:class:`plinth.step.tasks.Share`).
    macs : float
        Multiply-adds that the PEs are given, padding and all.
    samples : int
        Of a product: rows, images or tiles.
    sram : float
        Words of the engine's buffers that are read and written for each word of memory.
    """

    latency: float
    interval: float
    reads: float = 0.0
    writes: float = 0.0
    added: float = 0.0
    turn: float = 0.0
    exposed: float = 0.0
    passes: int = 1
    parts: int = 1
    fetch: float = 0.0
    stages: tuple[float, float, float] | None = None
    serial: bool = False
    begin: float = 0.0
    flits: float = 0.0
    packets: float = 0.0
    adds: float = 0.0
    multiplies: float = 0.0
    macs: float = 0.0
    samples: int = 0
    sram: float = 0.0

    @property
    def descriptors(self) -> int:
        """Descriptors of all the work."""
        return self.passes * self.parts

    @property
    def words(self) -> float:
        """Words read and written in a pass."""
        return self.reads + self.added + self.writes
