# amaranth: UnusedElaboratable=no
# Banks that share a module are elaborated once, however often they are placed.
"""Vector memory: one scratchpad scheme that reads and writes rows and columns in one cycle.

Element (i, j) of a matrix stored at base line ``base`` with row capacity D lies in

    bank (i + j) mod B,   line base + (j div B) * D + i

so B consecutive elements along a row, and along a column, lie in B different banks::

    VectorWriter: data --> rotate by skew (low bits) -> reg -> (high bits) -> BankArray
                  line, capacity, skew --> line of each bank -> reg ------------^
    VectorReader: line, capacity, skew --> line of each bank -> reg -> BankArray
                  -> reg -> rotate back -> data

:class:`VectorMemory` is one of each. Who shares several arrays among clients chooses between their commands, before
there is a line of each bank: :class:`SharedArray` takes them, while :class:`~plinth_hw.memory.rotators.WriteRotator`
and :class:`~plinth_hw.memory.rotators.ReadRotator` rotate the data of each client.

Nobody multiplies: a command carries the line of its lane 0, which
:class:`~plinth_hw.memory.line_tracker.LineTracker` keeps by additions. Latency: reads 3 cycles, writes are seen by
reads issued 1 cycle later. Throughput: one read and one write of B words a cycle, at any alignment. Source: MPT
section VI.A (operand buffers that serve the untransposed and the transposed operand).
"""


from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw import emit
from plinth_hw.memory.banks import BankArray, BankReadPort, BankWritePort, SharedBank, line_bits
from plinth_hw.memory.rotators import ReadRotator, WriteRotator


def vector_command(banks: int, lines: int) -> dict[str, wiring.Member]:
    """Members of a command, see :class:`VectorReadPort`."""
    lane_bits = exact_log2(banks)
    return {
        "enable": Out(1),
        "line": Out(line_bits(lines)),
        "capacity": Out(line_bits(lines)),
        "skew": Out(lane_bits),
        "column_low": Out(lane_bits),
        "along_rows": Out(1),
    }


def give(port: Any, command: Any) -> list:
    """Statements: what ``port`` is asked is ``command``, of :func:`vector_command`."""
    return [getattr(port, name).eq(getattr(command, name)) for name in command.signature.members]


class VectorReadPort(wiring.Signature):
    """Seen from the client. Plain signals, one command a cycle.

    Members
    -------
    enable : Out(1)
        A command is given in this cycle.
    line : Out
        Line of lane 0, element (i, j): ``base + (j div B) * D + i`` modulo 2^bits (j div B rounds down).
    capacity : Out
        Row capacity D.
    skew : Out
        ``(i + j) mod B``.
    column_low : Out
        ``j mod B``.
    along_rows : Out(1)
        0: lane l is element (i, j + l); 1: lane l is element (i + l, j).
    data : In
        B words, ``read_latency`` cycles after the command. Lanes outside the matrix carry junk.
    """

    def __init__(self, banks: int, lines: int, width: int):
        super().__init__({**vector_command(banks, lines),
                          "data": In(data.ArrayLayout(unsigned(width), banks))})


class VectorWritePort(wiring.Signature):
    """Seen from the client; the command's members as in :class:`VectorReadPort`, and with it
    ``mask`` Out(B), the lanes to write, and ``data`` Out, ``words`` words, B unless told: lane l writes word
    l mod ``words``."""

    def __init__(self, banks: int, lines: int, width: int, *, words: int | None = None):
        super().__init__({**vector_command(banks, lines),
                          "mask": Out(banks),
                          "data": Out(data.ArrayLayout(unsigned(width), banks if words is None else words))})


class SharedArray(wiring.Component):
    """``banks`` memories, written by two clients and read by one, of which one client's writes and the reads never
    come at once: block RAM with two ports.

    Members
    -------
    command : In of :func:`vector_command`, seen from the client
        A read, or with ``write`` a write.
    write : In(1)
    mask, data : In
        Of a write, a cycle later: banks to write, and words of each bank, as :class:`WriteRotator` gives them.
    read_data : Out
        Of a read, of each bank, two cycles later, as :class:`ReadRotator` takes them.
    other : In(BankWritePort)
        Writes of the other client.
    """

    def __init__(self, banks: int, lines: int, width: int):
        self.banks = banks
        self.lines = lines
        self.width = width
        words = data.ArrayLayout(unsigned(width), banks)
        super().__init__({
            "command": In(wiring.Signature(vector_command(banks, lines))), "write": In(1),
            "mask": In(banks), "data": In(words), "read_data": Out(words),
            "other": In(BankWritePort(banks, lines, width)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lines = Signal(data.ArrayLayout(unsigned(line_bits(self.lines)), self.banks))
        writes, reads = Signal(name="writes"), Signal(name="reads")
        bank_lines(m, self.command, lines, self.banks)
        m.d.sync += [writes.eq(self.command.enable & self.write), reads.eq(self.command.enable & ~self.write)]
        for number in range(self.banks):
            bank = SharedBank(self.lines, self.width)
            m.d.comb += [
                bank.line.eq(lines[number]), bank.read_enable.eq(reads), self.read_data[number].eq(bank.read_data),
                bank.write_enable.eq(writes & self.mask[number]), bank.write_data.eq(self.data[number]),
                bank.other_line.eq(self.other.line[number]), bank.other_data.eq(self.other.data[number]),
                bank.other_enable.eq(self.other.enable & self.other.mask[number]),
            ]
            emit.place(m, platform, bank, name=f"bank_{number}", module=bank.module_name)
        return m


class VectorWriter(wiring.Component):
    """Turns writes of vectors into writes of banks, one cycle later.

    Parameters
    ----------
    banks, lines, width : int
        As of :class:`VectorMemory`.
    words : int or None
        Words of data, a power of two, if they are fewer than the lanes.

    Members
    -------
    i : In(VectorWritePort)
    o : Out(BankWritePort)
    """

    def __init__(self, banks: int, lines: int, width: int, *, words: int | None = None):
        self.banks = banks
        self.width = width
        self.words = banks if words is None else words
        super().__init__({"i": In(VectorWritePort(banks, lines, width, words=words)),
                          "o": Out(BankWritePort(banks, lines, width))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.turn = turn = WriteRotator(self.banks, self.width, words=self.words)
        bank_lines(m, self.i, self.o.line, self.banks)
        m.d.sync += self.o.enable.eq(self.i.enable)
        m.d.comb += [
            turn.enable.eq(self.i.enable), turn.skew.eq(self.i.skew), turn.mask.eq(self.i.mask),
            turn.data.eq(self.i.data), self.o.mask.eq(turn.o_mask), self.o.data.eq(turn.o_data),
        ]
        return m


class VectorReader(wiring.Component):
    """Turns reads of vectors into reads of banks, one cycle later, and their data back.

    Parameters
    ----------
    banks, lines, width : int
        As of :class:`VectorMemory`.

    Members
    -------
    i : In(VectorReadPort)
    o : Out(BankReadPort)
    """

    #: Cycles from a command to its data.
    latency = ReadRotator.latency

    def __init__(self, banks: int, lines: int, width: int):
        self.banks = banks
        self.width = width
        super().__init__({"i": In(VectorReadPort(banks, lines, width)),
                          "o": Out(BankReadPort(banks, lines, width))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.turn = turn = ReadRotator(self.banks, self.width)
        bank_lines(m, self.i, self.o.line, self.banks)
        m.d.sync += self.o.enable.eq(self.i.enable)
        m.d.comb += [turn.enable.eq(self.i.enable), turn.skew.eq(self.i.skew), turn.data.eq(self.o.data),
                     self.i.data.eq(turn.o)]
        return m


class VectorMemory(wiring.Component):
    """Scratchpad of ``banks`` memories of ``lines`` words.

    Parameters
    ----------
    banks : int
        Lanes B, a power of two, at least 2.
    lines : int
        Words in a bank, at least ``banks``.
    width : int
        Bits of a word.
    words : int or None
        Words that are written at once, a power of two, if they are fewer than the lanes.

    Members
    -------
    write : In(VectorWritePort)
    read : In(VectorReadPort)
        A read issued in the same cycle as a write of the same element gets junk.

    Raises
    ------
    TypeError
        If a size is not an integer.
    ValueError
        If a size is not positive, ``banks`` is not a power of two, or ``lines`` is less than ``banks``.
    """

    #: Cycles from a read command to its data.
    read_latency = VectorReader.latency
    #: Reads issued this many cycles after a write, or later, see it.
    write_latency = 1

    def __init__(self, banks: int, lines: int, width: int, *, words: int | None = None):
        check_sizes(banks, lines, width)
        self.banks = banks
        self.lines = lines
        self.width = width
        self.words = words
        super().__init__({
            "write": In(VectorWritePort(banks, lines, width, words=words)),
            "read": In(VectorReadPort(banks, lines, width)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sizes = self.banks, self.lines, self.width
        m.submodules.array = array = BankArray(*sizes)
        m.submodules.writer = writer = VectorWriter(*sizes, words=self.words)
        m.submodules.reader = reader = VectorReader(*sizes)
        wiring.connect(m, wiring.flipped(self.write), writer.i)
        wiring.connect(m, wiring.flipped(self.read), reader.i)
        wiring.connect(m, writer.o, array.write)
        wiring.connect(m, reader.o, array.read)
        return m


def check_sizes(banks: int, lines: int, width: int) -> None:
    """Raise as :class:`VectorMemory` does."""
    for name, value in (("Banks", banks), ("Lines", lines), ("Width", width)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"{name} must be an integer, not {value!r}")
        if value < 1:
            raise ValueError(f"{name} must be positive, not {value!r}")
    if banks < 2 or banks & (banks - 1):
        raise ValueError(f"Banks must be a power of two and at least 2, not {banks!r}")
    if lines < banks:
        raise ValueError(f"Lines must be at least banks = {banks}, not {lines!r}")


def bank_lines(m: Module, command: wiring.FlippedInterface, lines: data.View, banks: int) -> None:
    """Registers the line of each bank.

    Bank b serves lane l = (b - skew) mod B. Along columns its line is ``line``, or ``line + capacity`` once
    l + column_low passes B. Along rows it is ``line + l``, whose upper part is that of ``line``, or one more once
    the lower part passes B. Passed or not, (l + low) mod B is ``place``; it is below ``low`` if it passed.
    """
    lane_bits = exact_log2(banks)
    line, along_rows = command.line, command.along_rows
    line_low, line_high = line[:lane_bits], line[lane_bits:]
    low, offset = Signal(lane_bits, name="low"), Signal(lane_bits, name="offset")
    following = Signal.like(line)
    m.d.comb += [
        low.eq(Mux(along_rows, line_low, command.column_low)),
        offset.eq(low - command.skew),
        following.eq(Mux(along_rows, Cat(line_low, (line_high + 1)[:len(line_high)]), line + command.capacity)),
    ]
    for bank in range(banks):
        place, passed = Signal(lane_bits, name=f"place_{bank}"), Signal(name=f"passed_{bank}")
        reached = Signal.like(line, name=f"reached_{bank}")
        m.d.comb += [place.eq(offset + bank), passed.eq(place < low), reached.eq(Mux(passed, following, line))]
        m.d.sync += lines[bank].eq(Cat(Mux(along_rows, place, reached[:lane_bits]), reached[lane_bits:]))
