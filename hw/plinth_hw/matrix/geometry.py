"""Sizes that follow from a die's parameters for each interleave shape, and the jobs between blocks.

*Option* o is the field ``interleave_m_log2`` of a task: Im = 2^o, In = I / Im, tiles of R Im x C In
outputs. Everything that depends on it is a short table here, indexed by o, or by o and the slot.
"""

from amaranth.hdl import Const, Module, Signal, Value, unsigned
from amaranth.lib import data
from amaranth.utils import bits_for, ceil_log2, exact_log2

from plinth_hw.isa.operations import ErrorCode
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.matrix.chain import chain_format
from plinth_hw.matrix.window import Start, grid_layout, runs_layout
from plinth_hw.shapes import shape_of


def element_log2(parameters: DieParameters) -> int:
    """Logarithm of the operands in a word.

    Raises
    ------
    ValueError
        If the multiply format does not divide a word, or the accumulate format is not a word.
    """
    bits = parameters.multiply_format.bits
    if bits not in (32, 16, 8):
        raise ValueError(f"Multiply format must have 32, 16 or 8 bits, not {bits}")
    if parameters.accumulate_format.bits != 32:
        raise ValueError(f"Accumulate format must have 32 bits, not {parameters.accumulate_format.bits}")
    return exact_log2(parameters.packing)


def _ceil(value: int, unit: int) -> int:
    return -(-value // unit)


class Geometry:
    """Tables of the matrix engine.

    Parameters
    ----------
    parameters : DieParameters

    Attributes
    ----------
    chain_format : Format
        Of words that the array takes and gives.
    lanes : int
        Operands in a beat: E = 32 W / bits of the multiply format.
    a_span, b_span : list of int
        Rows and columns of a tile, R Im and C In, by option.
    a_banks, b_banks : int
        Banks of the operand buffers, E or, where the array has more rows or columns, as many as these.
    a_half_lines, b_half_lines : int
        Lines of a half of each operand buffer.
    panel_k : list of int
        k steps of a panel, by option: as many as a half holds of both operands, down to a multiple of the banks
        if there are so many; 0 where the half is too small for a single k step.
    tile_lines : list of int
        Lines of a tile in the output buffer, by option.
    tile_places : list of int
        Tiles in the output buffer, by option.

    Raises
    ------
    ValueError
        If the multiply format does not divide a word, the accumulate format is not a word, or no
        interleave shape fits the operand buffer.
    """

    def __init__(self, parameters: DieParameters):
        rows, columns, interleave = parameters.rows, parameters.columns, parameters.interleave
        words = parameters.beat_words
        self.parameters = parameters
        self.chain_format = chain_format(parameters.multiply_format, parameters.sum_format)
        self.element_log2 = element_log2(parameters)
        self.lanes = words << self.element_log2
        self.interleave_log2 = interleave.bit_length() - 1
        self.options = self.interleave_log2 + 1
        self.a_span = [rows << o for o in range(self.options)]
        self.b_span = [columns * (interleave >> o) for o in range(self.options)]
        elements = parameters.operand_buffer_words << self.element_log2
        self.a_banks, self.b_banks = (max(self.lanes, 1 << ceil_log2(size)) for size in (rows, columns))
        self.a_half_lines, self.b_half_lines = elements // self.a_banks, elements // self.b_banks
        self.panel_k = []
        banks = max(self.a_banks, self.b_banks)
        for a_span, b_span in zip(self.a_span, self.b_span, strict=True):
            steps = min(self.a_half_lines // _ceil(a_span, self.a_banks),
                        self.b_half_lines // _ceil(b_span, self.b_banks))
            self.panel_k.append(steps // banks * banks if steps >= banks else steps)
        if not any(self.panel_k):
            raise ValueError(f"operand_buffer_words = {parameters.operand_buffer_words} does not hold one "
                             f"k step of any interleave shape")
        self.tile_lines = [a_span * _ceil(b_span, words)
                           for a_span, b_span in zip(self.a_span, self.b_span, strict=True)]
        self.output_lines = max(parameters.output_buffer_words // words, *self.tile_lines)
        self.tile_places = [self.output_lines // lines for lines in self.tile_lines]

    @property
    def option_bits(self) -> int:
        return bits_for(self.options - 1)

    @property
    def k_bits(self) -> int:
        """Width of a number of k steps in a panel."""
        return bits_for(max(self.panel_k))

    @property
    def a_bits(self) -> int:
        """Width of a number of rows in a tile."""
        return bits_for(max(self.a_span))

    @property
    def b_bits(self) -> int:
        """Width of a number of columns in a tile."""
        return bits_for(max(self.b_span))

    @property
    def element_address_bits(self) -> int:
        return self.parameters.address_bits + self.element_log2

    def split(self, option: int, slot: int) -> tuple[int, int]:
        """(im, jn) of a slot."""
        along_n = self.parameters.interleave >> option
        return slot // along_n, slot % along_n

    def by_slot(self, function: object) -> list[int]:
        """Values of ``function(option, im, jn)``, indexed by ``Cat(slot, option)``."""
        return [function(option, *self.split(option, slot))  # type: ignore[operator]
                for option in range(self.options) for slot in range(self.parameters.interleave)]

    def view(self, clipped: bool) -> data.StructLayout:
        """How an operand lies in memory, in elements."""
        return data.StructLayout({"grid": grid_layout(self.element_address_bits, clipped),
                                  "runs": runs_layout(self.element_address_bits)})

    def panel_job(self, span_bits: int) -> data.StructLayout:
        """A panel to load: ``k`` steps of ``span`` operands each, and where its rows and columns as stored start."""
        return data.StructLayout({
            "rows_start": Start, "columns_start": Start, "k": unsigned(self.k_bits), "span": unsigned(span_bits),
            #: consecutive k are neighbours in memory
            "along_k": unsigned(1), "half": unsigned(1), "option": unsigned(self.option_bits),
        })

    def load_job(self, span_bits: int, clipped: bool) -> data.StructLayout:
        """A panel, ``first`` of its task or not, and the task's view of the operand."""
        return data.StructLayout({"panel": self.panel_job(span_bits), "first": unsigned(1),
                                  "view": self.view(clipped)})

    @property
    def feed_job(self) -> data.StructLayout:
        """A panel to multiply: halves, ``k`` steps, and where it stands in its tile and task."""
        return data.StructLayout({
            "a_half": unsigned(1), "b_half": unsigned(1), "k": unsigned(self.k_bits),
            "rows": unsigned(self.a_bits), "columns": unsigned(self.b_bits),
            "option": unsigned(self.option_bits),
            "first": unsigned(1), "last": unsigned(1), "accumulate": unsigned(1), "task_last": unsigned(1),
        })

    @property
    def tile_job(self) -> data.StructLayout:
        """A tile of C in memory: where its rows start, and words from the first column of C. With ``error`` there
        is no tile: the task is only to be reported."""
        return data.StructLayout({
            "grid": grid_layout(self.parameters.address_bits, False), "start": Start,
            "offset": unsigned(self.parameters.address_bits),
            "rows": unsigned(self.a_bits), "columns": unsigned(self.b_bits),
            "option": unsigned(self.option_bits), "task_last": unsigned(1), "error": shape_of(ErrorCode),
        })


def lookup(m: Module, name: str, index: Value, values: list[int]) -> Signal:
    """Combinational table: ``values[index]``; 0 beyond its end."""
    result = Signal(bits_for(max(values)), name=name)
    with m.Switch(index):
        for i, value in enumerate(values):
            if value:
                with m.Case(i):
                    m.d.comb += result.eq(Const(value, len(result)))
    return result
