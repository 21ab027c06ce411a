# amaranth: UnusedElaboratable=no
# Banks that share a module are elaborated once, however often they are placed.
"""RAMs side by side, each with a line of its own, and the ports to them.

A :class:`Bank` writes and reads a word a cycle; a :class:`SharedBank` has one port for either, and another that
writes. Reads take a cycle.
"""

from amaranth.hdl import Module, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from plinth_hw import emit
from plinth_hw.lib.count import index_bits
from plinth_hw.lib.ram import UNCHECKED


def line_bits(lines: int) -> int:
    """Width of a line number."""
    return index_bits(lines)


class BankReadPort(wiring.Signature):
    """Seen from the reader: ``enable`` Out and ``line`` Out, of each bank; ``data`` In, of each bank, a cycle
    later."""

    def __init__(self, banks: int, lines: int, width: int):
        super().__init__({"enable": Out(1), "line": Out(data.ArrayLayout(unsigned(line_bits(lines)), banks)),
                          "data": In(data.ArrayLayout(unsigned(width), banks))})


class BankWritePort(wiring.Signature):
    """Seen from the writer: ``enable`` Out; ``mask`` Out, the banks to write; ``line`` and ``data`` Out, of each
    bank."""

    def __init__(self, banks: int, lines: int, width: int):
        super().__init__({"enable": Out(1), "mask": Out(banks),
                          "line": Out(data.ArrayLayout(unsigned(line_bits(lines)), banks)),
                          "data": Out(data.ArrayLayout(unsigned(width), banks))})


class Bank(wiring.Component):
    """One RAM with a write port and a read port, each used in every cycle; its own module in Verilog.

    Parameters
    ----------
    lines, width : int
        Words, and bits of a word.

    Members
    -------
    write_enable, write_line, write_data : In
    read_enable, read_line : In
    read_data : Out
        A cycle after ``read_enable``; unspecified if the word is written in the same cycle.
    """

    def __init__(self, lines: int, width: int):
        self.lines = lines
        self.width = width
        super().__init__({
            "write_enable": In(1), "write_line": In(line_bits(lines)), "write_data": In(width),
            "read_enable": In(1), "read_line": In(line_bits(lines)), "read_data": Out(width),
        })

    @property
    def module_name(self) -> str:
        """Name of the module in Verilog."""
        return f"plinth_ram_{self.lines}x{self.width}"

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = memory = Memory(shape=unsigned(self.width), depth=self.lines, init=[],
                                              attrs=UNCHECKED)
        write, read = memory.write_port(), memory.read_port()
        m.d.comb += [
            write.addr.eq(self.write_line), write.en.eq(self.write_enable), write.data.eq(self.write_data),
            read.addr.eq(self.read_line), read.en.eq(self.read_enable), self.read_data.eq(read.data),
        ]
        return m


class BankArray(wiring.Component):
    """``banks`` memories of ``lines`` words, each with its own line.

    Members
    -------
    write : In(BankWritePort)
    read : In(BankReadPort)
        A read issued in the same cycle as a write of the same word gets junk.
    """

    def __init__(self, banks: int, lines: int, width: int):
        self.banks = banks
        self.lines = lines
        self.width = width
        super().__init__({"write": In(BankWritePort(banks, lines, width)),
                          "read": In(BankReadPort(banks, lines, width))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for number in range(self.banks):
            bank = Bank(self.lines, self.width)
            m.d.comb += [
                bank.write_line.eq(self.write.line[number]), bank.write_data.eq(self.write.data[number]),
                bank.write_enable.eq(self.write.enable & self.write.mask[number]),
                bank.read_line.eq(self.read.line[number]), bank.read_enable.eq(self.read.enable),
                self.read.data[number].eq(bank.read_data),
            ]
            emit.place(m, platform, bank, name=f"bank_{number}", module=bank.module_name)
        return m


class SharedBank(wiring.Component):
    """One RAM with a port that writes or reads and a port that writes; its own module in Verilog.

    Parameters
    ----------
    lines, width : int
        Words, and bits of a word.

    Members
    -------
    line, write_enable, write_data, read_enable : In
        The one port; not both enables at once.
    read_data : Out
        A cycle after ``read_enable``; unspecified if the word is written in the same cycle.
    other_enable, other_line, other_data : In
        The other port; another word than one that the first port writes in the same cycle.
    """

    def __init__(self, lines: int, width: int):
        self.lines = lines
        self.width = width
        line = In(line_bits(lines))
        super().__init__({
            "line": line, "write_enable": In(1), "write_data": In(width), "read_enable": In(1), "read_data": Out(width),
            "other_enable": In(1), "other_line": line, "other_data": In(width),
        })

    @property
    def module_name(self) -> str:
        """Name of the module in Verilog."""
        return f"plinth_shared_ram_{self.lines}x{self.width}"

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = memory = Memory(shape=unsigned(self.width), depth=self.lines, init=[],
                                              attrs=UNCHECKED)
        write, other, read = memory.write_port(), memory.write_port(), memory.read_port()
        m.d.comb += [
            write.addr.eq(self.line), write.en.eq(self.write_enable), write.data.eq(self.write_data),
            read.addr.eq(self.line), read.en.eq(self.read_enable), self.read_data.eq(read.data),
            other.addr.eq(self.other_line), other.en.eq(self.other_enable), other.data.eq(self.other_data),
        ]
        return m
