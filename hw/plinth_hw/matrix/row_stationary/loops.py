"""The elements of a row as SystemVerilog loops, for simulation.

The text has the ports of :class:`~plinth_hw.matrix.row_stationary.elements.RowElements`, and shows the same words
wherever they are used, but not its structure: product and sum are made in the cycle in which the starting value is
chosen, one loop over the columns, and the result waits as long as the multiplier and the adder would take. The
elements have the same filters, so these are kept once.

Numbers are ``real``, see :mod:`plinth_hw.matrix.reals`.
"""

from typing import TYPE_CHECKING

from amaranth.hdl import Shape

from plinth_hw.matrix.reals import check, product_is_exact, rounding, to_bits, to_real
from plinth_hw.matrix.row_stationary.interface import ID_BITS

if TYPE_CHECKING:
    from plinth_hw.matrix.row_stationary.elements import RowElements


def text(elements: "RowElements", name: str) -> str:
    """SystemVerilog of ``elements`` as module ``name``.

    Raises
    ------
    ValueError
        If binary64 cannot stand for the formats.
    """
    shape = elements.shape
    operand, word = shape.multiply_format, shape.accumulate_format
    check(operand, word)
    C, F = shape.columns, shape.feed_words
    #: Cycles from the selection of a word to its sum, and from there to the output.
    wait = elements.start_stage - 1
    result_wait = elements.result_stage - elements.start_stage - 1
    #: Ifmaps that are in use, or wait to be: one may be selected a cycle.
    held = wait + 2
    factors = "held[x_place][j] * w"
    product = f"product = {factors};" if product_is_exact(operand, word) else f"round_word({factors}, product);"
    completes = "chosen & completes"
    #: Psums that the adder gives in the next cycle wait for no other.
    waiting = f"{{complete_wait[{result_wait - 2}:0], {completes}}}" if result_wait > 1 else completes
    ports = elements.signature.members

    def part(port: str, *path: str) -> str:
        """A field of a port."""
        layout, offset, bits = ports[port].shape, 0, 0
        for key in path:
            at = layout[key]
            layout, offset, bits = at.shape, offset + at.offset, at.width
        return f"{port}[{offset} +: {bits}]"

    def bits(port: str) -> int:
        """Width of a port."""
        return Shape.cast(ports[port].shape).width

    def each(count: int, line: str, size: int = 0) -> str:
        """``line`` for every lane: constant indices let Verilator pick words instead of shifting."""
        return "\n".join("      " + line.format(i=i, word=f"{i * size} +: {size}") for i in range(count))

    def loop(index: str, count: int) -> str:
        return f"/* verilator unroll_disable */\n      for (int unsigned {index} = 0; {index} < {count}; {index}++)"

    words_at = ports["ifmaps"].shape["words"].offset
    ifmap_words = "\n".join(
        f"        operand_real(ifmaps[{words_at + i * operand.bits} +: {operand.bits}], line[{i}]);"
        for i in range(F))
    matches = "\n".join(
        f"      match[{j}] = ifmaps_valid && offset == column_parts[{j * ID_BITS} +: {ID_BITS}];" for j in range(C))
    return f"""\
// Simulation form of the elements of a row: C = {C}, operands {operand}, psums {word}.
/* verilator lint_off BLKSEQ */
module {name}(
  input logic clk,
  input logic rst,
  input logic [{bits("control") - 1}:0] control,
  input logic [{bits("filter_words") - 1}:0] filter_words,
  input logic [{bits("ifmaps") - 1}:0] ifmaps,
  input logic [{bits("column_parts") - 1}:0] column_parts,
  input logic chosen,
  input logic completes,
  input logic [{bits("chain") - 1}:0] chain,
  output logic [{bits("o_chain") - 1}:0] o_chain
);
{to_real(operand, "operand_real")}{to_real(word, "word_real")}{to_bits(word, "word_bits")}\
{rounding(word, "round_word")}
  real filters [{2 * shape.filter_words}];
  real ring [{shape.ifmap_words}][{C}];
  real psums [{2 * shape.psum_words}][{C}];
  real accumulators [{shape.psum_words}][{C}];

  // Lines that were read, until a word of them is selected. Selected filters wait, and with each the place of its
  // ifmaps among those held; the last of these places is that of +0.
  int filter_line, ifmap_line;
  logic ifmaps_fresh;
  real w_wait [{wait}];
  int x_wait [{wait}];
  real held [{held + 1}][{C}];
  int held_at, wait_at;

  // Complete psums wait for the cycle in which they would leave the adder.
  logic [{C * word.bits - 1}:0] result, result_wait [{result_wait}];
  logic [{result_wait - 1}:0] complete_wait;
  int result_at;

  real line [{F}];
  logic [{C - 1}:0] match;
  logic ifmaps_valid;
  logic [{ID_BITS - 1}:0] offset;
  int place, base, slot, x_place;
  real w;

  function automatic void start_from_above();
      {loop("j", C)} accumulators[slot][j] = psums[base][j];
  endfunction

  function automatic void multiply_add();
      real product, sum;
      {loop("j", C)} begin
        {product}
        round_word(accumulators[slot][j] + product, sum);
        accumulators[slot][j] = sum;
      end
  endfunction

  function automatic void complete();
{each(C, "word_bits(accumulators[slot][{i}], result[{word}]);", word.bits)}
  endfunction

  function automatic void hold();
      {loop("j", C)} held[held_at][j] = ring[place][j];
  endfunction

  function automatic void take_chain();
{each(C, "word_real(chain[{word}], psums[base][{i}]);", word.bits)}
  endfunction

  always_ff @(posedge clk) begin
    // Complete psums leave, before the place is used again.
    if (complete_wait[{result_wait - 1}]) o_chain <= result_wait[result_at];
    complete_wait = {waiting};

    // Multiply and add.
    if (chosen) begin
      w = w_wait[wait_at];
      x_place = x_wait[wait_at];
      slot = int'({part("control", "read_slot")});
      base = int'({part("control", "psum_read")});
      if ({part("control", "start")}) start_from_above();
      multiply_add();
      if (completes) begin
        complete();
        result_wait[result_at] = result;
      end
    end
    result_at = result_at == {result_wait - 1} ? 0 : result_at + 1;

    // Select operands; read lines.
    if (ifmaps_fresh) begin
      held_at = held_at == {held - 1} ? 0 : held_at + 1;
      place = ifmap_line * {F} + int'({part("control", "ifmap", "word")});
      hold();
    end
    w_wait[wait_at] = {part("control", "bubble")} ? -0.0 :
                      filters[filter_line * {F} + int'({part("control", "filter", "word")})];
    x_wait[wait_at] = {part("control", "bubble")} ? {held} : held_at;
    wait_at = wait_at == {wait - 1} ? 0 : wait_at + 1;
    ifmaps_fresh = {part("control", "ifmap", "enable")};
    if (ifmaps_fresh) ifmap_line = int'({part("control", "ifmap", "line")});
    if ({part("control", "filter", "enable")}) filter_line = int'({part("control", "filter", "line")});

    // Write filters, ifmaps and psums.
    if ({part("control", "filter_enable")}) begin
      base = int'({part("control", "filter_write")}) * {F};
{each(F, "operand_real(filter_words[{word}], filters[base + {i}]);", operand.bits)}
    end
    ifmaps_valid = {part("ifmaps", "valid")};
    if (ifmaps_valid) begin
      offset = {part("ifmaps", "offset")};
{matches}
      if (match != 0) begin
        base = int'({part("control", "ifmap_write")}) * {F};
{ifmap_words}
        {loop("k", F)} begin
          {loop("j", C)} ring[base + k][j] = match[j] ? line[k] : ring[base + k][j];
        end
      end
    end
    if ({part("control", "chain")}) begin
      base = int'({part("control", "psum_write")});
      take_chain();
    end

    if (rst) complete_wait = 0;
  end

  initial begin
    filter_line = 0;
    ifmap_line = 0;
    ifmaps_fresh = 0;
    held_at = 0;
    wait_at = 0;
    result_at = 0;
    complete_wait = 0;
    o_chain = 0;
    {loop("k", 2 * shape.filter_words)} filters[k] = 0.0;
    {loop("k", wait)} begin
      w_wait[k] = 0.0;
      x_wait[k] = {held};
    end
    {loop("j", C)} begin
      {loop("k", shape.ifmap_words)} ring[k][j] = 0.0;
      {loop("k", 2 * shape.psum_words)} psums[k][j] = 0.0;
      {loop("k", shape.psum_words)} accumulators[k][j] = 0.0;
      {loop("k", held + 1)} held[k][j] = 0.0;
    end
  end
endmodule
/* verilator lint_on BLKSEQ */
"""
