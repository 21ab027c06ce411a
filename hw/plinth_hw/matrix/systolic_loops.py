"""The systolic array as SystemVerilog loops, for simulation.

The text has the ports and, cycle by cycle, the behaviour of the array of cells, but not its structure. Element
(r, c) of the array does everything r + c cycles after the boundary, and only the boundary is seen; here all
elements of a slot work in the same cycle, and the results wait R + C - 2 cycles longer. One loop does the R C
multiply-adds of a slot on state in unpacked arrays, so that Verilator's C++ is vectorised by the compiler.

Numbers are ``real``, see :mod:`plinth_hw.matrix.reals`.
"""

from typing import TYPE_CHECKING

from amaranth.utils import ceil_log2

from plinth_hw.matrix.reals import check, product_is_exact, rounding, to_bits, to_real

if TYPE_CHECKING:
    from plinth_hw.matrix.systolic import SystolicArray


def text(array: "SystolicArray", name: str) -> str:
    """SystemVerilog of ``array`` as module ``name``.

    Raises
    ------
    ValueError
        If binary64 cannot stand for the array's formats.
    """
    operand, sums, word = array.multiply_format, array.accumulate_format, array.word_format
    check(operand, sums)
    R, C, I = array.rows, array.columns, array.interleave  # noqa: E741
    N = R * C
    D = array.start_delay
    slot_bits = ceil_log2(I)

    W = R + C - 2
    factors = "a_flat[j] * b_flat[j]"
    product = f"product = {factors};" if product_is_exact(operand, sums) else f"round_sum({factors}, product);"

    def each(count: int, line: str) -> str:
        """``line`` for every lane: constant indices let Verilator pick words instead of shifting."""
        return "\n".join("      " + line.format(i=i, operand=f"{i * operand.bits} +: {operand.bits}",
                                                word=f"{i * word.bits} +: {word.bits}")
                         for i in range(count))

    def loop(index: str, count: int) -> str:
        return f"/* verilator unroll_disable */\n      for (int unsigned {index} = 0; {index} < {count}; {index}++)"

    return f"""\
// Simulation form of the systolic array: R = {R}, C = {C}, I = {I}, operands {operand}, sums {sums}.
/* verilator lint_off BLKSEQ */
module {name}(
  input logic clk,
  input logic rst,
  input logic [{operand.bits * R - 1}:0] a,
  input logic [{operand.bits * C - 1}:0] b,
  input logic [{slot_bits - 1}:0] slot,
  input logic valid,
  input logic first,
  input logic preload,
  input logic last,
  input logic drain_start,
  input logic load_start,
  input logic [{word.bits * C - 1}:0] load_data,
  output logic [{word.bits * C - 1}:0] drain_data,
  output logic drain_valid
);
{to_real(operand, "operand_real")}{to_real(word, "word_real", sums)}{to_bits(word, "word_bits", sums)}\
{rounding(sums, "round_sum")}
  // Operands wait until the cycle in which the first element chooses its starting value.
  logic [{operand.bits - 1}:0] a_wait [{D}][{R}];
  logic [{operand.bits - 1}:0] b_wait [{D}][{C}];
  int wait_at;
  logic [{D}:0] valid_wait, first_wait, preload_wait;
  logic [{array.capture_delay}:0] last_wait;

  real a_real [{R}];
  real b_real [{C}];
  real a_flat [{N}];
  real b_flat [{N}];
  real total [{I}][{N}];
  logic [{word.bits - 1}:0] memory [{I}][{N}];

  // The token is in row `row`, at slot `row_slot`.
  logic draining, loading;
  int row, row_slot;

  // Drained words wait as long as they would in the chain and in the triangle below it.
  logic [{word.bits * C - 1}:0] drained;
  logic [{word.bits * C - 1}:0] drain_wait [{W + 1}];
  logic [{W + 1}:0] drain_valid_wait;
  int drain_at;

  int start_slot, capture_slot;

  function automatic void capture();
      {loop("j", N)} word_bits(total[capture_slot][j], memory[capture_slot][j]);
  endfunction

  function automatic void start_from_memory();
      {loop("j", N)} word_real(memory[start_slot][j], total[start_slot][j]);
  endfunction

  function automatic void start_from_zero();
      {loop("j", N)} total[start_slot][j] = 0.0;
  endfunction

  function automatic void multiply_add();
      real product, sum;
      {loop("r", R)} operand_real(a_wait[wait_at][r], a_real[r]);
      {loop("c", C)} operand_real(b_wait[wait_at][c], b_real[c]);
      {loop("r", R)} begin
        {loop("c", C)} begin
          a_flat[r * {C} + c] = a_real[r];
          b_flat[r * {C} + c] = b_real[c];
        end
      end
      {loop("j", N)} begin
        {product}
        round_sum(total[start_slot][j] + product, sum);
        total[start_slot][j] = sum;
      end
  endfunction

  always_ff @(posedge clk) begin
    // Drain, before anything that changes the memory in this cycle.
    if (draining) begin
{each(C, f"drained[{{word}}] = memory[row_slot][row * {C} + {{i}}];")}
      drain_wait[drain_at] = drained;
    end
    drain_valid_wait = {{drain_valid_wait[{W}:0], draining}};
    drain_at = drain_at == {W} ? 0 : drain_at + 1;
    drain_valid <= drain_valid_wait[{W}];
    if (drain_valid_wait[{W}]) drain_data <= drain_wait[drain_at];

    // Capture, before the slot's next sum; load.
    valid_wait = {{valid_wait[{D - 1}:0], valid}};
    first_wait = {{first_wait[{D - 1}:0], first}};
    preload_wait = {{preload_wait[{D - 1}:0], preload}};
    last_wait = {{last_wait[{array.capture_delay - 1}:0], last & valid}};
    start_slot = (int'(slot) + {-D % I}) % {I};
    capture_slot = (int'(slot) + {-array.capture_delay % I}) % {I};
    if (last_wait[{array.capture_delay}]) begin
      capture();
    end
    if (loading) begin
{each(C, f"memory[row_slot][row * {C} + {{i}}] = load_data[{{word}}];")}
    end

    // Multiply and add, all elements of the slot.
    if (valid_wait[{D}]) begin
      if (first_wait[{D}]) begin
        if (preload_wait[{D}]) begin
          start_from_memory();
        end else begin
          start_from_zero();
        end
      end
      multiply_add();
    end
    if (valid) begin
{each(R, "a_wait[wait_at][{i}] = a[{operand}];")}
{each(C, "b_wait[wait_at][{i}] = b[{operand}];")}
    end
    wait_at = wait_at == {D - 1} ? 0 : wait_at + 1;

    // Token: I cycles in each row.
    if (draining || loading) begin
      row_slot = row_slot == {I - 1} ? 0 : row_slot + 1;
      if (row_slot == 0) begin
        row = row == {R - 1} ? 0 : row + 1;
        if (row == 0) begin
          draining = 0;
          loading = 0;
        end
      end
    end
    draining = draining | drain_start;
    loading = loading | load_start;

    if (rst) begin
      drain_valid <= 0;
      drain_valid_wait = 0;
      valid_wait = 0;
      last_wait = 0;
      draining = 0;
      loading = 0;
      row = 0;
      row_slot = 0;
    end
  end

  initial begin
    wait_at = 0;
    drain_at = 0;
    row = 0;
    row_slot = 0;
    draining = 0;
    loading = 0;
    valid_wait = 0;
    last_wait = 0;
    drain_valid_wait = 0;
    drain_valid = 0;
    {loop("s", I)} begin
      {loop("j", N)} total[s][j] = 0.0;
    end
  end
endmodule
/* verilator lint_on BLKSEQ */
"""
