"""Parameters and formats are checked where they are made."""

from fractions import Fraction

import numpy as np
import pytest

from plinth_hw.isa.formats import FP16, FP32, Q3_12, Fixed, Float, as_words
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import PRESETS, ROW_STATIONARY, preset

#: Change for a die of words of 16 bits.
HALF_WORDS = {"multiply_format": Q3_12}


@pytest.mark.parametrize(("changes", "needle"), [
    ({"rows": 0}, "rows must be positive, not 0"),
    ({"beat_words": 12}, "power of two, not 12"),
    ({"beat_words": 4}, "at least columns = 8, not 4"),
    ({"machine": ROW_STATIONARY, "rows": 9}, r"at least max\(rows, columns\) = 9, not 8"),
    ({"output_buffer_words": 100}, "one tile of 512 words, not 100"),
    ({"link_rate": Fraction(3, 2)}, "link_rate"),
    ({"link_phits": 17}, "link_phits must be from 0 to 16, not 17"),
    ({"link_phits": -1}, "link_phits must be from 0 to 16, not -1"),
    ({"link_phits": 2}, r"link_rate must be above 0 and at most 1 / 2, a flit in link_phits cycles, not 15/16"),
    ({"transfer_words": 3}, "transfer_words must be 0, or a power of two from flit_words = .* not 3"),
    ({"transfer_words": 1 << 10}, "to beat_words = .* not 1024"),
    ({"link_buffer_packets": 1}, "link_buffer_packets must be a power of two, at least 2: .* not 1"),
    ({"link_buffer_packets": 6}, "link_buffer_packets must be a power of two, at least 2: .* not 6"),
    ({"memory_words_per_cycle": Fraction(17)}, "at most a beat each way = 16"),
    ({"chunk_words": 1, "flit_words": 2}, "multiple of"),
    ({"axi_ports": 32}, "axi_ports"),
    ({"engines": frozenset(Engine)}, "engines may have OPTIMISER only if multiply_format is fixed-point, not float32"),
    ({"axi_ports": 3}, "axi_ports must be a power of two, or 0, not 3"),
    ({"ports": -1}, "ports must not be negative, not -1"),
    ({"ports": 0}, "ports = 0 is of a die without a network, which COLLECTIVE, TRANSFER of its engines need; leave "
     "them out, or choose ports from 1 on"),
    ({"ports": 0, "engines": frozenset({Engine.MATRIX}), "link_phits": 1},
     "link_phits must be 0 where ports = 0, not 1: there is no link"),
    ({"ports": 0, "engines": frozenset({Engine.MATRIX}), "port_rates": True},
     "port_rates must be False where ports = 0: there is no link"),
    ({"link_rate": Fraction(0)}, "link_rate must be above 0 and at most 1, not 0"),
    ({"memory_words_per_cycle": Fraction(0)}, "memory_words_per_cycle must be above 0 and at most .* not 0"),
    ({"output_buffer_words": 511}, "one tile of 512 words, not 511"),
    ({"axi_ports": -1}, "axi_ports must not be negative, not -1"),
    ({"axi_ports": 0}, "a die needs memory: axi_ports or block_ram_words must be positive, not both 0"),
    ({"block_ram_words": -512}, "block_ram_words must not be negative, not -512"),
    ({"chunk_words": 8}, "chunk_words must be at least 16 with engine TRANSFER, which reads so many row"),
    ({"transforms": ((3, 3),)}, r"transforms must be some of F\(2,3\), F\(4,3\), F\(2,5\), each once, not "),
    ({"transforms": ((2, 3), (2, 3))}, "each once"),
    ({"transforms": ((2, 3),), "multiply_format": Q3_12}, "transforms are of dies with engine TRANSFER and numbers"),
    ({"codes": True}, "codes are of dies with transforms"),
    ({"transforms": ((2, 3),), "engines": frozenset({Engine.MATRIX})}, "transforms are of dies with engine TRANSFER"),
    ({"block_ram_words": 1000}, "block_ram_words = 1000 must be a multiple of the longest request, 64 x beat_words = "),
    ({"block_ram_words": 1 << 13, "address_bits": 12}, r"block_ram_words = 8192 must be at most 2\^address_bits = "),
    ({"multiply_format": Fixed(3, 4)}, "must have 16 bits if it is fixed-point, not 8 as q3.4 has"),
    ({**HALF_WORDS, "beat_words": 1, "rows": 1, "columns": 1}, "beat_words must be at least 2, 32 bits, not 1"),
    ({**HALF_WORDS, "beat_words": 128}, "at most 1024 bits: axi_ports = 1 does not fit beat_words = 128"),
])
def test_a_broken_constraint_names_its_values(changes, needle: str) -> None:
    with pytest.raises(ValueError, match=needle):
        preset("ndp-demo", **changes)


@pytest.mark.parametrize(("name", "changes"), [
    ("ndp-demo", {"link_rate": Fraction(1)}), ("ndp-demo", {"link_phits": 16, "link_rate": Fraction(1, 16)}),
    ("ndp-demo", {"memory_words_per_cycle": Fraction(16)}), ("ndp-demo", {"output_buffer_words": 512}),
    ("ndp-demo", {"chunk_words": 16}), ("ndp-demo", {"chunk_words": 2, "engines": frozenset({Engine.COLLECTIVE})}),
    ("ndp-demo", {"link_buffer_packets": 2}), ("ndp-demo", {"beat_words": 32}),
    ("ndp-demo", {"block_ram_words": 1 << 13, "address_bits": 13}), ("ndp-demo", {"transfer_words": 8}),
    ("hypar-tiny", {"ifmap_words": 16}), ("hypar-tiny", {"output_buffer_words": 8 * 16}),
    ("hypar-tiny", {"rows": 4, "columns": 4})])
def test_what_is_just_within_its_limits_is_taken(name: str, changes: dict[str, object]) -> None:
    parameters = preset(name, **changes)
    assert {key: getattr(parameters, key) for key in changes} == changes


@pytest.mark.parametrize(("changes", "needle"), [
    ({"machine": "dataflow"}, "machine must be 'systolic' or 'row-stationary', not 'dataflow'"),
    ({"filter_words": 30}, "filter_words = 30 must be a multiple of feed_words = 4"),
    ({"operand_buffer_words": 1000, "beat_words": 16}, "operand_buffer_words = 1000 must be a multiple of beat_words"),
    ({"output_buffer_words": 8 * 31}, "of at least sums = 16 words, not 248"),
    ({"ifmap_words": 12}, "at least four lines"),
])
def test_a_row_stationary_die_has_constraints_of_its_own(changes, needle: str) -> None:
    with pytest.raises(ValueError, match=needle):
        preset("hypar-demo", **changes)


def test_a_wrong_kind_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"rows must be an integer, not 8\.0"):
        preset("ndp-demo", rows=8.0)
    with pytest.raises(TypeError):
        Float(8.0, 23)
    with pytest.raises(ValueError, match="Exponent width"):
        Float(1, 23)
    with pytest.raises(ValueError, match="at least one value bit"):
        Fixed(0, 0)


def test_memory_on_the_chip_has_a_window_and_a_size() -> None:
    axi, window, chip, both = (preset("ndp-demo", **changes) for changes in (
        {}, {"window": True}, {"block_ram_words": 4096, "axi_ports": 0}, {"block_ram_words": 4096}))
    assert [die.has_window for die in (axi, window, chip, both)] == [False, True, True, True]
    assert [die.most_memory_words for die in (axi, window, chip, both)] == [(1 << 32) - 1] * 2 + [4096, (1 << 32) - 1]


def test_formats_of_sums_and_of_memory() -> None:
    fixed, mixed, plain = (preset(name) for name in ("hypar-demo-fixed", "hypar-demo-mixed", "hypar-demo"))
    assert (fixed.sum_format, mixed.sum_format, plain.sum_format) == (Fixed(23, 24), FP32, FP32)
    assert (fixed.memory_format, mixed.memory_format, plain.memory_format) == (Q3_12, FP32, FP32)
    assert (fixed.packing, mixed.packing, plain.packing) == (1, 2, 1)
    assert (fixed.number_format, mixed.number_format, plain.number_format) == ("fixed", "mixed", "fp32")


def test_a_word_is_a_number_of_memory() -> None:
    """What tasks and records are made of takes two words of 16 bits a unit."""
    whole, half = preset("ndp-demo-mixed"), preset("ndp-demo", **HALF_WORDS)
    assert (whole.word_bits, whole.beat_bits, whole.packing, whole.words_of(64)) == (32, 256, 2, 64)
    assert (half.word_bits, half.beat_bits, half.packing, half.words_of(64)) == (16, 128, 1, 128)


def test_wider_numbers_are_the_words_of_their_bits() -> None:
    half, whole = np.dtype("<u2"), np.dtype("<u4")
    units = np.array([[0x0001_0002, 0xFFFF_0003]], np.uint32)
    assert as_words(units, half).tolist() == [2, 1, 3, 0xFFFF]
    assert as_words(units, whole).tolist() == [0x0001_0002, 0xFFFF_0003]
    assert as_words(np.array([1.0], np.float32), whole).tolist() == [0x3F80_0000]
    assert as_words(np.array([7, 9], np.uint8), whole).tolist() == [7, 9]


def test_fixed_point_numbers_saturate_and_round_to_even() -> None:
    values = np.array([0, 0.125, 0.375, -0.125, -0.375, 3.9, -9, np.inf, -np.inf, np.nan, 1e-40, 3.4e38], np.float32)
    fmt = Fixed(2, 2)
    assert (fmt.least, fmt.most) == (-16, 15)
    assert fmt.encode(values).tolist() == [0, 0, 2, 0, -2, 15, -16, 15, -16, 0, 0, 15]
    assert fmt.decode(np.array([-16, -1, 0, 15])).tolist() == [-4.0, -0.25, 0.0, 3.75]
    assert Fixed(25, 22).decode(np.array([(1 << 25) + 1, (1 << 25) + 3])).tolist() == [8.0, 8.0 + 2.0 ** -20]


def test_unknown_presets_list_the_known() -> None:
    with pytest.raises(ValueError, match="ndp-demo"):
        preset("nope")


def test_the_paper_preset_has_the_sizes_of_the_paper() -> None:
    """MPT section VI.B and Table III."""
    paper = PRESETS["ndp-paper"]
    assert (paper.rows, paper.columns) == (64, 64)
    assert paper.memory_words_per_cycle * 4 == 320
    assert paper.operand_buffer_words * 4 == 512 * 1024
    assert paper.output_buffer_words * 4 == 128 * 1024
    assert paper.vector_buffer_words * 4 == 512 * 1024
    assert paper.chunk_words * 4 == 256
    assert paper.flit_words * paper.link_rate * 4 == 60


def test_the_mixed_paper_preset_has_the_sizes_of_the_paper() -> None:
    """MPT footnote 16, and all else as the other one; but a chunk is a beat."""
    paper, mixed = PRESETS["ndp-paper"], PRESETS["ndp-paper-mixed"]
    assert (mixed.rows, mixed.columns, mixed.number_format) == (96, 96, "mixed")
    assert mixed.chunk_words == mixed.beat_words == 128
    for name in ("memory_words_per_cycle", "operand_buffer_words", "vector_buffer_words", "flit_words", "link_rate",
                 "transforms", "engines"):
        assert getattr(mixed, name) == getattr(paper, name)


def test_the_row_stationary_preset_has_the_sizes_of_the_paper() -> None:
    """HyPar section 6.1: 12 x 14 PEs, 108 KB of buffer."""
    paper = PRESETS["hypar-paper"]
    assert (paper.machine, paper.rows, paper.columns) == ("row-stationary", 12, 14)
    assert (2 * paper.operand_buffer_words + paper.output_buffer_words) * 4 == 108 * 1024


def test_formats_know_their_special_patterns() -> None:
    assert (FP32.bits, FP32.bias, FP32.quiet_nan, FP32.infinity) == (32, 127, 0x7FC00000, 0x7F800000)
    assert (FP16.bits, FP16.bias, FP16.quiet_nan, FP16.infinity) == (16, 15, 0x7E00, 0x7C00)
    assert Fixed(3, 12).bits == 16
