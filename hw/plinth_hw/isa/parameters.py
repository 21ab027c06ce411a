"""Parameters of a die and the presets. Plain data, read by RTL, driver, golden model and reports."""

from dataclasses import dataclass, field, replace
from fractions import Fraction

from plinth_hw.isa.codes import BLOCK
from plinth_hw.isa.descriptors import BODY_WORDS
from plinth_hw.isa.formats import FP16, FP32, Q3_12, Fixed, Float, Format
from plinth_hw.isa.layout import WORD_BITS, Code, Struct
from plinth_hw.isa.limits import PARAMETERS
from plinth_hw.isa.matrix_bodies import MatrixBody, RowStationaryBody
from plinth_hw.isa.operations import OPERATIONS, CollectiveOperation, Engine, Traffic, TransferOperation
from plinth_hw.isa.transfer_bodies import CodeBody, TransferBody, TransformBody
from plinth_hw.isa.update_bodies import CollectiveBody, OptimiserBody
from plinth_hw.isa.vector_body import VectorBody
from plinth_hw.isa.winograd import TRANSFORMS

#: Engines that every die may have, and those of dies of fixed-point numbers.
COMMON_ENGINES = frozenset(Engine) - {Engine.OPTIMISER}
FIXED_ENGINES = frozenset(Engine)
#: Engines that send to other dies.
NETWORK_ENGINES = frozenset((Engine.COLLECTIVE, Engine.TRANSFER))
#: Engines of a fixed-point die that has no other beside it: its optimiser updates, and nothing is sent.
LONE_ENGINES = FIXED_ENGINES - NETWORK_ENGINES
#: Parameters that may be 0.
_MAY_BE_NONE = ("axi_ports", "block_ram_words", "link_phits", "ports", "transfer_words")
#: Pieces of a frame of the link layer, at most.
MOST_PHITS = 16
#: Packets of a class that a router holds of its own die, and the least number of flits.
INJECT_PACKETS, INJECT_FLITS = 4, 128
#: Flits that wait for the network behind a transfer engine that moves wider ones: while it makes some hundred cycles'
#: worth of maps, links have what is there.
LEAVING_FLITS = 256
#: Cycles for which a reset of a die lasts at least: in Verilog it passes a register at each level of modules.
RESET_CYCLES = 8
#: Row numbers that a transfer reads at once, in a packet's buffer.
INDEX_WORDS = 16
#: Longest request of the internal memory ports, in beats.
MAX_BEATS = 64
#: Machines that a matrix engine can be.
SYSTOLIC, ROW_STATIONARY = "systolic", "row-stationary"


def _power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


@dataclass(frozen=True, kw_only=True)
class DieParameters:
    """Everything that shapes one die. A word holds a number of its memory and has ``word_bits``.

    Raises
    ------
    TypeError
        If a size is not an integer.
    ValueError
        If a constraint between sizes is broken; the message names both values. If a field of
        :data:`~plinth_hw.isa.limits.PARAMETERS` cannot hold a size; the message names it, its width and the value.
    """

    #: Preset name, used in file and module names.
    name: str
    #: What the matrix engine is: an output-stationary systolic array, or a row-stationary one.
    machine: str = SYSTOLIC
    #: PEs along M and N; row-stationary: along kernel rows and rows of sums.
    rows: int
    columns: int
    #: Format of the matrix operands: fixed-point of 16 bits, which all numbers of the die have then, in memory, on
    #: links and in every engine; or FP32, or FP16, two to a word of FP32.
    multiply_format: Format = FP32
    accumulate_format: Float = FP32
    #: Independent outputs that each systolic PE interleaves; at least the adder's latency, and 2; a power of two.
    interleave: int = 8
    #: Row-stationary PE: operands of one half (of two) of its filter scratchpad, of its ifmap scratchpad (a
    #: ring), and the most sums that it interleaves.
    filter_words: int = 224
    ifmap_words: int = 128
    psum_words: int = 16
    #: Operands a cycle of a row-stationary array's multicast bus and of its filter bus; a power of two.
    feed_words: int = 4
    #: Words in one beat of the internal memory port; a power of two, at least 32 bits, columns and, of a
    #: row-stationary machine, rows.
    beat_words: int
    #: Memory bandwidth in words a cycle, reads and writes together (the memory model throttles).
    memory_words_per_cycle: Fraction
    #: One half (of two) of each operand buffer, in words; row-stationary: of the one ifmap buffer.
    operand_buffer_words: int
    #: Output buffer, all places of tiles together; row-stationary: psum buffer, two halves of a bank for each column.
    output_buffer_words: int
    #: Words that the vector engine processes a cycle: half a beat.
    vector_buffer_words: int
    #: Words in a chunk (packet) of a collective: 64 words are the paper's 256 bytes.
    chunk_words: int = 64
    #: Reduce blocks: messages in flight in a collective engine.
    reduce_blocks: int = 2
    #: Payload words of a flit.
    flit_words: int
    #: Flits a cycle that a link carries, per direction.
    link_rate: Fraction = Fraction(15, 16)
    #: Each port has a rate of its own, in LINK_RATES; with a link layer it has one in any case.
    port_rates: bool = False
    #: Kinds of traffic have routes of their own, which tasks set; only of a die with a collective engine, which runs
    #: them.
    sets_routes: bool = False
    #: Pieces, one a cycle, in which frames of a link layer go over each link's wires; 0: no link layer, for wires that
    #: lose and change nothing.
    link_phits: int = 0
    #: Packets of a class that a router holds behind a link; a power of two, at least 2.
    link_buffer_packets: int = 4
    #: Links of the router; 0: the die has no network, and no engine that needs one.
    ports: int = 2
    #: Update counters; a power of two, at least 2.
    counters: int = 64
    #: Die number bits.
    die_bits: int = 10
    #: Word address bits.
    address_bits: int = 32
    #: AXI4 ports, each beat_words * 32 / axi_ports bits wide, interleaved beat slice by beat slice; 0: memory is on the
    #: chip alone.
    axi_ports: int = 1
    #: Words of memory on the chip, at addresses from 0 on, before those behind the AXI4 ports; a multiple of the
    #: longest request, ``MAX_BEATS`` beats; 0: none.
    block_ram_words: int = 0
    #: The host may reach memory by registers, as it always may where some is on the chip.
    window: bool = False
    #: Transforms of Winograd tiles, as F(m, r), that the transfer engine has; only of FP32.
    transforms: tuple[tuple[int, int], ...] = ()
    #: Words that the transfer engine moves a cycle within the die, a power of two from ``flit_words`` to
    #: ``beat_words``; 0: those of a flit.
    transfer_words: int = 0
    #: The transfer engine codes and decodes runs of words, and predicts; only of a die with transforms.
    codes: bool = False
    #: Engines present; the optimiser only where numbers are fixed-point.
    engines: frozenset[Engine] = field(default=COMMON_ENGINES)

    def __post_init__(self) -> None:
        if self.machine not in (SYSTOLIC, ROW_STATIONARY):
            raise ValueError(f"machine must be {SYSTOLIC!r} or {ROW_STATIONARY!r}, not {self.machine!r}")
        if isinstance(self.multiply_format, Fixed) and self.multiply_format.bits != 16:
            raise ValueError(f"multiply_format must have 16 bits if it is fixed-point, not "
                             f"{self.multiply_format.bits} as {self.multiply_format} has")
        if Engine.OPTIMISER in self.engines and not isinstance(self.multiply_format, Fixed):
            raise ValueError(f"engines may have {Engine.OPTIMISER.name} only if multiply_format is fixed-point, not "
                             f"{self.multiply_format}")
        for key in ("rows", "columns", "interleave", "filter_words", "ifmap_words", "psum_words", "feed_words",
                    "beat_words", "operand_buffer_words", "output_buffer_words", "vector_buffer_words", "chunk_words",
                    "reduce_blocks", "flit_words", "ports", "counters", "die_bits", "address_bits", "axi_ports",
                    "block_ram_words", "link_phits", "link_buffer_packets", "transfer_words"):
            value = getattr(self, key)
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"{key} must be an integer, not {value!r}")
            if value < 1 and key not in _MAY_BE_NONE:
                raise ValueError(f"{key} must be positive, not {value!r}")
        self._check_fields()
        for key in ("interleave", "feed_words", "beat_words", "flit_words", "chunk_words", "reduce_blocks",
                    "counters"):
            if not _power_of_two(getattr(self, key)):
                raise ValueError(f"{key} must be a power of two, not {getattr(self, key)!r}")
        if self.beat_words < self.columns or (self.machine == ROW_STATIONARY and self.beat_words < self.rows):
            least, name = ((self.columns, "columns") if self.machine == SYSTOLIC
                           else (max(self.rows, self.columns), "max(rows, columns)"))
            raise ValueError(f"beat_words must be at least {name} = {least}, not {self.beat_words}")
        if self.beat_bits < WORD_BITS:
            raise ValueError(f"beat_words must be at least {WORD_BITS // self.word_bits}, {WORD_BITS} bits, not "
                             f"{self.beat_words}")
        self._check_memory()
        self._check_network()
        self._check_transforms()
        if self.chunk_words % self.flit_words:
            raise ValueError(f"chunk_words = {self.chunk_words} must be a multiple of "
                             f"flit_words = {self.flit_words}")
        if Engine.TRANSFER in self.engines and self.chunk_words < INDEX_WORDS:
            raise ValueError(f"chunk_words must be at least {INDEX_WORDS} with engine TRANSFER, which reads so many "
                             f"row numbers at once, not {self.chunk_words}")
        if self.machine == SYSTOLIC and self.output_buffer_words < self.tile_words:
            raise ValueError(f"output_buffer_words must hold one tile of {self.tile_words} words, "
                             f"not {self.output_buffer_words}")
        if self.machine == ROW_STATIONARY:
            self._check_row_stationary()
        if not 0 <= self.link_phits <= MOST_PHITS:
            raise ValueError(f"link_phits must be from 0 to {MOST_PHITS}, not {self.link_phits!r}")
        if not 0 < self.link_rate * max(1, self.link_phits) <= 1:
            most = f"1 / {self.link_phits}, a flit in link_phits cycles" if self.link_phits > 1 else "1"
            raise ValueError(f"link_rate must be above 0 and at most {most}, not {self.link_rate}")
        if self.link_buffer_packets < 2 or not _power_of_two(self.link_buffer_packets):
            raise ValueError("link_buffer_packets must be a power of two, at least 2: a packet enters a ring where two "
                             f"have room; not {self.link_buffer_packets!r}")
        if not 0 < self.memory_words_per_cycle <= 2 * self.beat_words:
            raise ValueError(f"memory_words_per_cycle must be above 0 and at most a beat each way = "
                             f"{2 * self.beat_words}, not {self.memory_words_per_cycle}")

    def _check_fields(self) -> None:
        """Refuse what fields of registers, tasks or packets cannot hold: by the narrowest."""
        for limit in sorted(PARAMETERS, key=lambda limit: limit.most):
            limit.check(self)

    def _check_memory(self) -> None:
        """Refuse what cannot be behind the crossbar."""
        for key in ("axi_ports", "block_ram_words"):
            if getattr(self, key) < 0:
                raise ValueError(f"{key} must not be negative, not {getattr(self, key)!r}")
        if not self.axi_ports and not self.block_ram_words:
            raise ValueError("a die needs memory: axi_ports or block_ram_words must be positive, not both 0")
        if self.axi_ports and not _power_of_two(self.axi_ports):
            raise ValueError(f"axi_ports must be a power of two, or 0, not {self.axi_ports!r}")
        if self.axi_ports and (self.beat_words % self.axi_ports or self.beat_bits // self.axi_ports > 1024):
            raise ValueError(f"an AXI4 port has at most 1024 bits: axi_ports = {self.axi_ports} "
                             f"does not fit beat_words = {self.beat_words}")
        if self.block_ram_words % (MAX_BEATS * self.beat_words):
            raise ValueError(f"block_ram_words = {self.block_ram_words} must be a multiple of the longest request, "
                             f"{MAX_BEATS} x beat_words = {MAX_BEATS * self.beat_words}")
        if self.block_ram_words > 1 << self.address_bits:
            raise ValueError(f"block_ram_words = {self.block_ram_words} must be at most 2^address_bits = "
                             f"{1 << self.address_bits}")

    def _check_network(self) -> None:
        """Refuse a die without a network that has something to send, or links."""
        if self.ports < 0:
            raise ValueError(f"ports must not be negative, not {self.ports!r}")
        if self.sets_routes and Engine.COLLECTIVE not in self.engines:
            raise ValueError("sets_routes is of dies with engine COLLECTIVE, which runs the tasks that set them")
        if self.ports:
            return
        senders = ", ".join(engine.name for engine in Engine if engine in self.engines & NETWORK_ENGINES)
        if senders:
            raise ValueError(f"ports = 0 is of a die without a network, which {senders} of its engines need; leave "
                             "them out, or choose ports from 1 on")
        if self.port_rates:
            raise ValueError("port_rates must be False where ports = 0: there is no link")
        if self.link_phits:
            raise ValueError(f"link_phits must be 0 where ports = 0, not {self.link_phits}: there is no link")

    def _check_transforms(self) -> None:
        """Refuse transforms that there are not, or that no engine of the die has."""
        known = ", ".join(f"F({outputs},{taps})" for outputs, taps in TRANSFORMS)
        if len(set(self.transforms)) < len(self.transforms) or not set(self.transforms) <= set(TRANSFORMS):
            raise ValueError(f"transforms must be some of {known}, each once, not {self.transforms!r}")
        if self.transfer_words and not (_power_of_two(self.transfer_words)
                                        and self.flit_words <= self.transfer_words <= self.beat_words):
            raise ValueError(f"transfer_words must be 0, or a power of two from flit_words = {self.flit_words} to "
                             f"beat_words = {self.beat_words}, not {self.transfer_words}")
        if self.transforms and (Engine.TRANSFER not in self.engines or self.memory_format != FP32):
            raise ValueError("transforms are of dies with engine TRANSFER and numbers in FP32 in memory")
        if self.codes and not (self.transforms and max(self.flit_words, self.transfer_words) <= BLOCK
                               and self.chunk_words >= WORD_BITS):
            raise ValueError(f"codes are of dies with transforms, flit_words and transfer_words of at most {BLOCK}, "
                             f"chunk_words of at least {WORD_BITS}")

    def _check_row_stationary(self) -> None:
        for key, unit in (("filter_words", "feed_words"), ("ifmap_words", "feed_words"),
                          ("operand_buffer_words", "beat_words")):
            if getattr(self, key) % getattr(self, unit):
                raise ValueError(f"{key} = {getattr(self, key)} must be a multiple of {unit} = {getattr(self, unit)}")
        if self.output_buffer_words % (2 * self.columns) or self.bank_words < self.psum_words:
            raise ValueError(f"output_buffer_words must be 2 x {self.columns} halves of banks of at least sums = "
                             f"{self.psum_words} words, not {self.output_buffer_words}")
        if self.ifmap_words < 4 * self.feed_words:
            raise ValueError(f"ifmap_words must be at least four lines of feed_words = {self.feed_words}, "
                             f"not {self.ifmap_words}")

    @property
    def systolic(self) -> bool:
        """Whether the matrix engine is a systolic array."""
        return self.machine == SYSTOLIC

    @property
    def words_per_cycle(self) -> int:
        """Words that an engine moves in a cycle, at most: a beat each way or, to the network, a flit a reduce block."""
        return max(2 * self.beat_words, self.reduce_blocks * self.flit_words)

    @property
    def memory_format(self) -> Format:
        """Format of numbers in memory, on links, and in all engines but the matrix engine."""
        return self.multiply_format if isinstance(self.multiply_format, Fixed) else FP32

    @property
    def word_bits(self) -> int:
        """Bits of a word: of what addresses, strides and lengths count."""
        return self.memory_format.bits

    @property
    def word_bytes(self) -> int:
        """Bytes of a word."""
        return self.word_bits // 8

    @property
    def beat_bits(self) -> int:
        """Bits of a beat."""
        return self.beat_words * self.word_bits

    @property
    def has_window(self) -> bool:
        """Whether the host may reach memory by registers."""
        return self.window or self.block_ram_words > 0

    @property
    def with_window(self) -> "DieParameters":
        """The same, of a die whose memory the host may reach by registers."""
        return self if self.has_window else replace(self, window=True)

    @property
    def has_port_rates(self) -> bool:
        """Whether links have rates of their own."""
        return self.port_rates or self.link_phits > 0

    @property
    def most_memory_words(self) -> int:
        """The most that register MEMORY_WORDS holds, and what it holds after reset: memory on the chip has a size."""
        return (1 << WORD_BITS) - 1 if self.axi_ports else self.block_ram_words

    def words_of(self, units: int) -> int:
        """Words of memory that so many units of 32 bits take, of which tasks and records are made."""
        return units * WORD_BITS // self.word_bits

    @property
    def packing(self) -> int:
        """Operands in a word of memory."""
        return self.word_bits // self.multiply_format.bits

    @property
    def number_format(self) -> str:
        """What products are computed in: "fp32", "mixed" (FP16 operands, FP32 sums) or "fixed"."""
        if isinstance(self.multiply_format, Fixed):
            return "fixed"
        return "fp32" if self.packing == 1 else "mixed"

    @property
    def sum_format(self) -> Format:
        """Format of sums within the matrix engine: for fixed-point operands exact, and rounded once, when stored."""
        if isinstance(self.multiply_format, Fixed):
            return self.multiply_format.sums
        return self.accumulate_format

    @property
    def least_slots(self) -> int:
        """Slots of a tap of a row-stationary array, at least, and cycles from a row's first sum to the next row's: the
        way of a sum through the adder, its memory and the register behind it."""
        return 3 if isinstance(self.sum_format, Fixed) else 8

    @property
    def bank_words(self) -> int:
        """Words of one half of a bank of a row-stationary machine's psum buffer: of an array column."""
        return self.output_buffer_words // (2 * self.columns)

    @property
    def tile_words(self) -> int:
        """Outputs of one tile of the systolic matrix engine."""
        return self.rows * self.columns * self.interleave

    def operations(self, engine: Engine) -> tuple[Code, ...]:
        """What an engine of the die can be asked for, as far as that is not said by the rest of a task."""
        operations = tuple(OPERATIONS[engine])
        absent = (() if self.transforms else (TransferOperation.TRANSFORM, TransferOperation.TRANSFORM_ADD)) + (
            () if self.codes else (TransferOperation.ENCODE, TransferOperation.DECODE, TransferOperation.PREDICT)) + (
            () if self.sets_routes else (CollectiveOperation.SET_ROUTE,))
        return tuple(operation for operation in operations if operation not in absent)

    def body(self, engine: Engine) -> type[Struct]:
        """Layout of the bodies of an engine's tasks."""
        return {Engine.MATRIX: RowStationaryBody if self.machine == ROW_STATIONARY else MatrixBody,
                Engine.VECTOR: VectorBody, Engine.COLLECTIVE: CollectiveBody,
                Engine.TRANSFER: CodeBody if self.codes else TransformBody if self.transforms else TransferBody,
                Engine.OPTIMISER: OptimiserBody}[engine]

    def body_words(self, engine: Engine) -> int:
        """Words of a task body that go to an engine: those that have fields, rounded up to a power of two."""
        used = self.body(engine).BITS // WORD_BITS
        return min(BODY_WORDS, 1 << (used - 1).bit_length())

    @property
    def classes(self) -> int:
        """Traffic classes: 0 for control packets, 1 + b for reduce block b, the last one for tile transfers."""
        return 2 + self.reduce_blocks

    @property
    def within(self) -> "DieParameters":
        """The die as its transfer engine is: with flits of as many words as move a cycle within."""
        return self if self.transfer_words in (0, self.flit_words) else replace(self, flit_words=self.transfer_words)

    @property
    def transfer_class(self) -> int:
        """The traffic class of tile transfers."""
        return self.classes - 1

    def traffic(self, number: int) -> Traffic:
        """The kind of traffic of a class."""
        if number == self.transfer_class:
            return Traffic.TILES
        return Traffic.CHUNKS if number else Traffic.CONTROL

    @property
    def looks_ahead(self) -> bool:
        """Whether routers look up routes of all flits as they come: tiles' elements go to many dies in turn, in short
        packets."""
        return bool(self.transforms)

    @property
    def packet_flits(self) -> int:
        """Flits of the longest packet, which has a chunk."""
        return self.chunk_words // self.flit_words

    @property
    def link_buffer_flits(self) -> int:
        """Flits of a class that a router holds behind a link: a packet may enter a ring where two are free, and does
        so without waiting if the credits of its predecessors come back within the time of the other two."""
        return self.link_buffer_packets * self.packet_flits

    @property
    def leaving_flits(self) -> int:
        """Flits, as wide as what moves within the die, that wait for the network behind its transfer engine: none where
        links are as wide."""
        return 0 if self.within is self else LEAVING_FLITS

    @property
    def inject_buffer_flits(self) -> int:
        """Flits of a class that a router holds of its own die."""
        return max(INJECT_FLITS, INJECT_PACKETS * self.packet_flits)


def _ndp(name: str, size: int, **changes: object) -> DieParameters:
    """The ``ndp`` machine for a size x size array; the paper's ratios scaled to the array's width.

    64x64 at 1 GHz: 320 GB/s = 80 words a cycle, reads and writes together (a beat of 64 words a cycle
    each way at most); two full links aggregated for collectives, 60 GB/s
    a direction = 15 words a cycle; 512 KB for each half of an operand buffer (MPT VI.B, Table III).
    """
    beat = 1
    while beat < size:
        beat *= 2
    values: dict[str, object] = {
        "name": name, "rows": size, "columns": size, "beat_words": beat,
        "memory_words_per_cycle": Fraction(5 * size, 4),
        "operand_buffer_words": 4096 if size <= 8 else 32 * size * size,
        "output_buffer_words": (1 if size >= 64 else 2) * 8 * size * size,
        "vector_buffer_words": 8192 if size <= 16 else 131072,
        "flit_words": max(1, size // 4),
        "die_bits": 8 if size <= 8 else 10,
        "axi_ports": max(1, beat * 32 // 1024),
    }
    values.update(changes)
    return DieParameters(**values)  # type: ignore[arg-type]


def _hypar(name: str, rows: int, columns: int, ifmap_words: int, bank_words: int, **changes: object
           ) -> DieParameters:
    """The ``hypar`` machine: a row-stationary array with two halves of an ifmap buffer and a bank of psums for each
    array column; all else as in the ``ndp`` machine of the same beat.

    12 x 14 at 250 MHz: 84 GOPS, 108 KB of buffers, memory at the most that a beat of 16 words each way allows, which is
    a tenth of the 320 GB/s of HyPar section 6.1.
    """
    beat = 1
    while beat < max(rows, columns):
        beat *= 2
    values: dict[str, object] = {"rows": rows, "columns": columns, "machine": ROW_STATIONARY,
                                 "operand_buffer_words": ifmap_words, "output_buffer_words": columns * bank_words}
    return _ndp(name, beat, **(values | changes))


#: Named presets. ``tiny`` for block tests, ``demo`` for the training run, ``half`` and ``paper`` for HyPar's
#: unit, half as wide and high, and the figures of MPT and HyPar.
PRESETS: dict[str, DieParameters] = {
    p.name: p for p in (
        _ndp("ndp-tiny", 4, operand_buffer_words=1024, vector_buffer_words=1024),
        _ndp("ndp-tiny-links", 4, operand_buffer_words=1024, vector_buffer_words=1024, link_phits=1),
        _ndp("ndp-tiny-routes", 4, operand_buffer_words=1024, vector_buffer_words=1024, sets_routes=True),
        _ndp("ndp-demo", 8),
        _ndp("ndp-demo-links", 8, link_phits=1),
        _ndp("ndp-demo-routes", 8, transforms=TRANSFORMS, sets_routes=True),
        _ndp("ndp-demo-mixed", 8, multiply_format=FP16),
        _ndp("ndp-tiny-winograd", 4, operand_buffer_words=1024, vector_buffer_words=1024, transforms=TRANSFORMS),
        _ndp("ndp-demo-winograd", 8, transforms=TRANSFORMS),
        _ndp("ndp-demo-predict", 8, transforms=TRANSFORMS, codes=True),
        _ndp("ndp-demo-mixed-winograd", 8, multiply_format=FP16, transforms=TRANSFORMS),
        _ndp("ndp-bench", 16),
        _ndp("ndp-paper", 64, transforms=TRANSFORMS),
        # MPT's footnote 16: 96x96 of FP16 products, all else as in the paper's die; a chunk is a beat at least.
        _ndp("ndp-paper-mixed", 96, multiply_format=FP16, transforms=TRANSFORMS, memory_words_per_cycle=Fraction(80),
             operand_buffer_words=131072, chunk_words=128, flit_words=16),
        _hypar("hypar-tiny", 3, 4, 512, 128, vector_buffer_words=1024),
        _hypar("hypar-demo", 6, 8, 2048, 512),
        _hypar("hypar-demo-mixed", 6, 8, 2048, 512, multiply_format=FP16),
        _hypar("hypar-demo-fixed", 6, 8, 2048, 512, multiply_format=Q3_12, engines=FIXED_ENGINES),
        _hypar("hypar-half", 6, 7, 3328, 512, memory_words_per_cycle=Fraction(16)),
        _hypar("hypar-paper", 12, 14, 6656, 1024, memory_words_per_cycle=Fraction(32)),
        _ndp("fpga-tiny", 4, operand_buffer_words=1024, vector_buffer_words=1024, multiply_format=Q3_12,
             engines=FIXED_ENGINES),
        _ndp("fpga-demo", 8, multiply_format=Q3_12, engines=FIXED_ENGINES),
        _ndp("fpga-ulx3s", 8, rows=12, multiply_format=Q3_12, engines=LONE_ENGINES, interleave=2,
             memory_words_per_cycle=Fraction(16), output_buffer_words=2 * 192, chunk_words=16, reduce_blocks=1, ports=0,
             counters=16, die_bits=1, link_buffer_packets=2, address_bits=18, axi_ports=0, block_ram_words=128 * 1024),
    )
}


def preset(name: str, **changes: object) -> DieParameters:
    """The preset called ``name``, with single fields replaced.

    Raises
    ------
    ValueError
        If there is no such preset; the message lists those that exist.
    """
    if name not in PRESETS:
        raise ValueError(f"preset must be one of {', '.join(PRESETS)}, not {name!r}")
    return replace(PRESETS[name], **changes)  # type: ignore[arg-type]
