# amaranth: UnusedElaboratable=no
# Banks that share a module are elaborated once, however often they are placed.
"""Vector memory: one scratchpad scheme that reads and writes rows and columns in one cycle.

Element (i, j) of a matrix stored at base line ``base`` with row capacity D lies in

    bank (i + j) mod B,   line base + (j div B) * D + i

so B consecutive elements along a row, and along a column, lie in B different banks::

    write: data --> rotate by skew (first half) -> reg -> (second half) -> B banks
           line, capacity, skew --> line of each bank -> reg ------------^
    read:  line, capacity, skew --> line of each bank -> reg -> B banks
           -> rotate back (first half) -> reg -> (second half) -> data

Nobody multiplies: a command carries the line of its lane 0, which :class:`LineTracker` keeps by
additions. Latency: reads 3 cycles, writes are seen by reads issued 1 cycle later. Throughput: one read
and one write of B words a cycle, at any alignment. Source: MPT section VI.A (operand buffers that
serve the untransposed and the transposed operand).
"""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from plinth_hw import emit


def line_bits(lines: int) -> int:
    """Width of a line number."""
    return max(1, (lines - 1).bit_length())


def _command(banks: int, lines: int) -> dict[str, wiring.Member]:
    lane_bits = (banks - 1).bit_length()
    return {
        "enable": Out(1),
        "line": Out(line_bits(lines)),
        "capacity": Out(line_bits(lines)),
        "skew": Out(lane_bits),
        "column_low": Out(lane_bits),
        "along_rows": Out(1),
    }


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

    def __init__(self, banks: int, lines: int, width: int = 32):
        super().__init__({**_command(banks, lines),
                          "data": In(data.ArrayLayout(unsigned(width), banks))})


class VectorWritePort(wiring.Signature):
    """Seen from the client; the command's members as in :class:`VectorReadPort`, and with it
    ``mask`` Out(B), the lanes to write, and ``data`` Out, B words."""

    def __init__(self, banks: int, lines: int, width: int = 32):
        super().__init__({**_command(banks, lines),
                          "mask": Out(banks),
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
        A cycle after ``read_enable``; the old word if it is written in the same cycle.
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
        m.submodules.memory = memory = Memory(shape=unsigned(self.width), depth=self.lines, init=[])
        write, read = memory.write_port(), memory.read_port()
        m.d.comb += [
            write.addr.eq(self.write_line), write.en.eq(self.write_enable), write.data.eq(self.write_data),
            read.addr.eq(self.read_line), read.en.eq(self.read_enable), self.read_data.eq(read.data),
        ]
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

    Members
    -------
    write : In(VectorWritePort)
    read : In(VectorReadPort)
        A read issued in the same cycle as a write of the same element gets the old word.

    Raises
    ------
    TypeError
        If a size is not an integer.
    ValueError
        If a size is not positive, ``banks`` is not a power of two, or ``lines`` is less than ``banks``.
    """

    #: Cycles from a read command to its data.
    read_latency = 3
    #: Reads issued this many cycles after a write, or later, see it.
    write_latency = 1

    def __init__(self, banks: int, lines: int, width: int = 32):
        for name, value in (("Banks", banks), ("Lines", lines), ("Width", width)):
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"{name} must be an integer, not {value!r}")
            if value < 1:
                raise ValueError(f"{name} must be positive, not {value!r}")
        if banks < 2 or banks & (banks - 1):
            raise ValueError(f"Banks must be a power of two and at least 2, not {banks!r}")
        if lines < banks:
            raise ValueError(f"Lines must be at least banks = {banks}, not {lines!r}")
        self.banks = banks
        self.lines = lines
        self.width = width
        super().__init__({
            "write": In(VectorWritePort(banks, lines, width)),
            "read": In(VectorReadPort(banks, lines, width)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lane_bits = (self.banks - 1).bit_length()
        first_bits = (lane_bits + 1) // 2
        write_data = [self.write.data[lane] for lane in range(self.banks)]
        write_skew = Signal(lane_bits)
        half_written = data.ArrayLayout(unsigned(self.width), self.banks)
        write_half = Signal(half_written)
        read_skew = [Signal(lane_bits, name=f"read_skew_{stage}") for stage in range(3)]
        read_half = Signal(half_written)
        write_lines, write_enables = self._lines(m, self.write, "write", self.write.mask)
        read_lines, read_enables = self._lines(m, self.read, "read", None)

        m.d.sync += write_skew.eq(self.write.skew)
        with m.If(self.write.enable):
            m.d.sync += write_half.as_value().eq(
                Cat(*rotate(m, "write_data", write_data, self.write.skew, 0, first_bits, up=True)))
        bank_in = rotate(m, "bank_in", [write_half[lane] for lane in range(self.banks)], write_skew,
                         first_bits, lane_bits, up=True)

        m.d.sync += [read_skew[0].eq(self.read.skew), read_skew[1].eq(read_skew[0]),
                     read_skew[2].eq(read_skew[1])]
        read_valid = Signal()
        m.d.sync += read_valid.eq(read_enables[0])
        bank_out = []
        for number in range(self.banks):
            bank = Bank(self.lines, self.width)
            m.d.comb += [
                bank.write_line.eq(write_lines[number]), bank.write_enable.eq(write_enables[number]),
                bank.write_data.eq(bank_in[number]),
                bank.read_line.eq(read_lines[number]), bank.read_enable.eq(read_enables[number]),
            ]
            emit.place(m, platform, bank, name=f"bank_{number}", module=bank.module_name)
            bank_out.append(bank.read_data)
        with m.If(read_valid):
            m.d.sync += read_half.as_value().eq(
                Cat(*rotate(m, "bank_out", bank_out, read_skew[1], 0, first_bits, up=False)))
        m.d.comb += self.read.data.as_value().eq(
            Cat(*rotate(m, "read_data", [read_half[lane] for lane in range(self.banks)], read_skew[2],
                       first_bits, lane_bits, up=False)))
        return m

    def _lines(self, m: Module, port: wiring.FlippedInterface, name: str, mask: Value | None,
               ) -> tuple[list[Signal], list[Signal]]:
        """Registered line and enable of each bank.

        Bank b serves lane l = (b - skew) mod B. Along columns its line is ``line``, or
        ``line + capacity`` once column_low + l passes B. Along rows it is ``line + l``, whose upper
        part is that of ``line``, or one more once the lower part carries.
        """
        lane_bits = (self.banks - 1).bit_length()
        bits = line_bits(self.lines)
        next_column = Signal(bits, name=f"{name}_next_column")
        low = Signal(lane_bits, name=f"{name}_low")
        carried = Signal(bits, name=f"{name}_carried")
        low_offset = Signal(lane_bits, name=f"{name}_low_offset")
        m.d.comb += [
            next_column.eq(port.line + port.capacity),
            low.eq(Mux(port.along_rows, port.line[:lane_bits], port.column_low)),
            carried.eq(Mux(port.along_rows,
                           Cat(port.line[:lane_bits], (port.line[lane_bits:] + 1)[:bits - lane_bits]),
                           next_column)),
            low_offset.eq(port.line[:lane_bits] - port.skew[:lane_bits]),
        ]
        lines, enables = [], []
        for bank in range(self.banks):
            lane = Signal(lane_bits, name=f"{name}_lane_{bank}")
            total = Signal(lane_bits + 1, name=f"{name}_total_{bank}")
            line = Signal(bits, name=f"{name}_line_{bank}")
            selected = Signal(bits, name=f"{name}_selected_{bank}")
            enable = Signal(name=f"{name}_enable_{bank}")
            m.d.comb += [
                lane.eq(bank - port.skew),
                total.eq(lane + low),
                selected.eq(Mux(total[lane_bits], carried, port.line)),
            ]
            m.d.sync += line.eq(Cat(
                Mux(port.along_rows, (low_offset + bank)[:lane_bits], selected[:lane_bits]),
                selected[lane_bits:]))
            lines.append(line)
            enables.append(enable)
            if mask is None:
                m.d.sync += enable.eq(port.enable)
        if mask is not None:
            # The mask turns like the data; one bit a lane, so in one go.
            turned = rotate(m, f"{name}_mask", [mask[lane] for lane in range(self.banks)], port.skew, 0,
                            lane_bits, up=True)
            m.d.sync += [enable.eq(port.enable & bit)
                         for enable, bit in zip(enables, turned, strict=True)]
        return lines, enables


def rotate(m: Module, name: str, lanes: list[Value], amount: Value, first_bit: int, end_bit: int, *,
           up: bool) -> list[Value]:
    """Rotate ``lanes`` by the bits ``first_bit`` to ``end_bit - 1`` of ``amount``, one multiplexer
    level a bit. ``up``: lane l goes to lane l + amount; otherwise lane l comes from lane l + amount.
    Each level is one wide signal, named after ``name`` and its bit."""
    width, total = len(lanes[0]), len(lanes[0]) * len(lanes)
    turned: Value = Cat(*lanes)
    for bit in range(first_bit, end_bit):
        level = Signal(total, name=f"{name}_turned_{bit}")
        low = width << bit
        cut = total - low if up else low
        m.d.comb += level.eq(Mux(amount[bit], Cat(turned[cut:], turned[:cut]), turned))
        turned = level
    return [turned[lane * width:(lane + 1) * width] for lane in range(len(lanes))]


class LineTracker(wiring.Component):
    """Lines for a walk over a matrix in the order of a strided load or store.

    The walk goes over the rows of the *walked* matrix in ascending order from 0, within a row by steps
    of B from a first column in -B + 1 .. 0, as :class:`~plinth_hw.memory.channel.StridedLoad` gives its
    beats. With ``along_rows`` the walked matrix is the transpose of the stored one: lane l of the beat
    at (row, column) is element (column + l, row).

    Parameters
    ----------
    banks, lines : int
        As of the vector memory.
    row_bits, column_bits : int
        Widths of ``row`` (unsigned) and ``column`` (signed).

    Members
    -------
    base, capacity, along_rows : In
        Where the matrix lies; stable during a walk.
    row, column : In
        Position of lane 0 in the walked matrix, of the beat at hand.
    take : In(1)
        The beat at hand is used up in this cycle; the next cycle shows the following one.
    line, skew, column_low : Out
        For the command of the beat at hand, in the same cycle.
    """

    def __init__(self, banks: int, lines: int, row_bits: int, column_bits: int):
        self.banks = banks
        self.lines = lines
        bits = line_bits(lines)
        lane_bits = (banks - 1).bit_length()
        super().__init__({
            "base": In(bits), "capacity": In(bits), "along_rows": In(1),
            "row": In(row_bits), "column": In(signed(column_bits)), "take": In(1),
            "line": Out(bits), "skew": Out(lane_bits), "column_low": Out(lane_bits),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bits = line_bits(self.lines)
        lane_bits = (self.banks - 1).bit_length()
        following = Signal(bits)
        start = Signal(bits)
        step = Signal(bits)
        first = Signal()
        first_row = Signal()
        row_low = Signal(lane_bits)
        column_low = Signal(lane_bits)
        # Along rows: line of (0, row), which moves by D when the row enters the next B columns.
        stored_column = Signal(bits)
        column_line = Signal(bits)
        last_row_low = Signal(lane_bits)
        m.d.comb += [
            first.eq(self.column <= 0),
            first_row.eq(self.row == 0),
            row_low.eq(self.row[:lane_bits]),
            column_low.eq(self.column[:lane_bits]),
            self.skew.eq(row_low + column_low),
            self.column_low.eq(Mux(self.along_rows, row_low, column_low)),
            step.eq(Mux(self.along_rows, self.banks, self.capacity)),
        ]
        with m.If(first_row):
            m.d.comb += column_line.eq(self.base)
        with m.Elif((row_low == 0) & (last_row_low != 0)):
            m.d.comb += column_line.eq(stored_column + self.capacity)
        with m.Else():
            m.d.comb += column_line.eq(stored_column)
        with m.If(self.along_rows):
            m.d.comb += start.eq(column_line + self.column)
        with m.Else():
            m.d.comb += start.eq(self.base + self.row - Mux(self.column < 0, self.capacity, 0))
        m.d.comb += self.line.eq(Mux(first, start, following))
        with m.If(self.take):
            m.d.sync += [following.eq(self.line + step), stored_column.eq(column_line),
                         last_row_low.eq(row_low)]
        return m


__all__ = ["LineTracker", "VectorMemory", "VectorReadPort", "VectorWritePort", "line_bits", "rotate"]
