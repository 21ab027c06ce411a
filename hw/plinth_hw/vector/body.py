"""Task bodies of the vector engine: staging, checks, and the memory that the stages read them from.

::

    body words --> place S mod 4 of a memory --> one read port, shared by the stages
              \\-> BodyChecks --> summary of the body (error, counts), with ``started``

The words of a body come in ascending order, one a cycle at most. Nothing of an unfit task is run. Reads have one
cycle latency.
"""

from itertools import pairwise
from typing import Any

from amaranth.hdl import Cat, Const, Module, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from plinth_hw.control.engine import BodyWord
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.ram import UNCHECKED
from plinth_hw.vector.checks import BodyChecks, Summary

#: Stages that read bodies: load, compute, store.
READERS = 3
#: Bodies held: one in each stage, so that the place of the body that comes is always unused.
BODIES = READERS + 1
BODY_BITS = 2


class BodyReadPort(wiring.Signature):
    """Seen from a reader: ``place`` and ``index`` Out with ``enable`` Out; ``data`` In one cycle later, if
    ``grant`` In was set with ``enable``."""

    def __init__(self) -> None:
        super().__init__({"enable": Out(1), "grant": In(1), "place": Out(BODY_BITS), "index": Out(6),
                          "data": In(32)})


class EntryReader(wiring.Component):
    """Reads entries of a body, one after the other: their words, two cycles each, and then it waits.

    Parameters
    ----------
    words : int
        Words of an entry.
    most : int
        Entries at most.

    Members
    -------
    start : In(1)
        Read ``count`` entries, zero or more; none is being read.
    count, place : In
        ``place``, that of the body, holds until the last one is taken.
    read : Out(BodyReadPort)
    word : Out
        Which word of the entry is asked for, or comes.
    index : In
        Where in the body that word is.
    comes : Out(1)
        ``read.data`` are that word.
    offers : Out(1)
        All words of an entry have come; until ``taken``, In(1).
    """

    def __init__(self, words: int, most: int):
        self.words = words
        super().__init__({
            "start": In(1), "count": In(range(most + 1)), "place": In(BODY_BITS), "read": Out(BodyReadPort()),
            "word": Out(range(words)), "index": In(6), "comes": Out(1), "offers": Out(1), "taken": In(1),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        left, asks = Signal.like(self.count), Signal(name="asks")
        final = self.word == self.words - 1
        m.d.comb += [self.read.place.eq(self.place), self.read.index.eq(self.index), self.read.enable.eq(asks)]
        m.d.sync += [self.comes.eq(asks & self.read.grant),
                     self.offers.eq((self.offers & ~self.taken) | (self.comes & final))]
        with m.If(self.read.grant):
            m.d.sync += asks.eq(0)
        with m.If(self.comes):
            m.d.sync += [self.word.eq(self.word + 1), asks.eq(1)]
            with m.If(final):
                m.d.sync += [self.word.eq(0), asks.eq(0)]
        with m.If(self.offers & self.taken):
            m.d.sync += [left.eq(left - 1), asks.eq(left != 1)]
        with m.If(self.start):
            m.d.sync += [left.eq(self.count), asks.eq(self.count != 0)]
        return m


class BodyStore(wiring.Component):
    """Stages, checks and keeps task bodies.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    body, operation
        As of ``EngineSignature``; ``operation`` with ``started``.
    complete : Out(1)
        A body has come and is checked.
    started : In(1)
        Pulse, ``complete``: the task of the body at ``place`` starts; ``summary`` tells of it. Of an unfit task it says
        the error and that there is nothing to do.
    place : Out
    summary : Out(Summary)
    read : In(BodyReadPort), one a reader
        The first has priority.
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        super().__init__({
            "body": In(stream.Signature(BodyWord)), "operation": In(4),
            "complete": Out(1), "started": In(1), "place": Out(BODY_BITS), "summary": Out(Summary),
            "read": In(BodyReadPort()).array(READERS),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.words = words = Memory(shape=unsigned(32), depth=BODIES * 64, init=[], attrs=UNCHECKED)
        write, read = words.write_port(), words.read_port()
        comes, word = Signal(name="comes"), self.body.payload
        # The last word has come, and so many cycles before; then the checks are through.
        staged = [Signal(name=f"staged_{cycle}") for cycle in range(BodyChecks.latency)]
        m.d.comb += [
            self.body.ready.eq(~staged[0]), comes.eq(self.body.valid & self.body.ready),
            write.en.eq(comes), write.addr.eq(Cat(word.index, self.place)), write.data.eq(word.word),
            read.en.eq(Cat(reader.enable for reader in self.read).any()),
            self.complete.eq(staged[-1]),
        ]
        taken = Const(0, 1)
        for reader in self.read:
            m.d.comb += [reader.data.eq(read.data), reader.grant.eq(~taken)]
            with m.If(reader.enable & ~taken):
                m.d.comb += read.addr.eq(Cat(reader.index, reader.place))
            taken = taken | reader.enable
        m.submodules.checks = checks = BodyChecks(self.parameters)
        m.d.comb += [checks.i_valid.eq(comes), checks.i.eq(word), checks.operation.eq(self.operation),
                     self.summary.eq(checks.summary)]
        m.d.sync += [after.eq(before) for before, after in pairwise(staged)]
        with m.If(comes & word.last):
            m.d.sync += staged[0].eq(1)
        with m.If(self.started):
            m.d.sync += [Cat(staged).eq(0), self.place.eq(self.place + 1)]
        return m
