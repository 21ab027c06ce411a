# amaranth: UnusedElaboratable=no
# Adders are also made to ask for their latency.
"""Words of the array's chain and drain memories, and how sums start from them and become them.

Floating-point sums are as long as memory's numbers and stay what they are. Of a fixed-point sum, which is three times
as long, the chain has what rounding to memory's format needs: within that format two bits more than it, of which the
last one also tells whether anything below it was lost, and beyond it the least or largest number. Rounded later,
that gives what the sum itself gives.

Fixed-point sums leave the adder with a bit more than their format and are saturated where the next one starts: the
choice between a sum, a word, zero and the ends takes one look-up table a bit.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from plinth_hw.arith.adder import FloatAdder
from plinth_hw.arith.fixed import FixedAdder, beyond
from plinth_hw.arith.units import adder
from plinth_hw.isa.formats import Fixed, Format


def chain_format(operand: Format, sums: Format) -> Format:
    """Format of the chain's words: that of floating-point sums; of fixed-point operands with two fraction bits more,
    where sums have them."""
    if not isinstance(operand, Fixed) or not isinstance(sums, Fixed):
        return sums
    return Fixed(operand.integer_bits, min(operand.fraction_bits + 2, sums.fraction_bits))


def sum_adder(sums: Format) -> FloatAdder | FixedAdder:
    """Adder whose sums :func:`next_sum` and :func:`captured` take."""
    return FixedAdder(sums, exact=True) if isinstance(sums, Fixed) else adder(sums)


def _chosen(m: Module, name: str, total: Value, word: Value, takes_word: Value, takes_end: Value,
            largest: Value) -> Value:
    """``total``, or ``word``, or all bits as ``largest``; as two signals that each bit's look-up table decodes."""
    end, high = Signal(name=f"{name}_end"), Signal(name=f"{name}_high")
    m.d.comb += [end.eq(~takes_word & takes_end), high.eq(takes_word | (takes_end & largest))]
    return Mux(end, high.replicate(len(total)), Mux(high, word, total))


def next_sum(m: Module, sums: Format, chain: Format, total: Value, word: Value, preload: Value, zero: Value) -> Value:
    """What a slot's next product is added to: a word if ``preload``, +0 if only ``zero``, or the adder's ``total``."""
    if not isinstance(sums, Fixed) or not isinstance(chain, Fixed):
        return Mux(preload, word, Mux(zero, 0, total))
    size, negative = sums.bits - 1, total[-1]
    over = beyond(total, sums)
    start = Cat(Const(0, sums.fraction_bits - chain.fraction_bits), word,
                word[-1].replicate(sums.integer_bits - chain.integer_bits))
    return Cat(_chosen(m, "next", total[:size], start[:size], preload, zero | over, ~zero & ~negative),
               Mux(preload, word[-1], ~zero & negative))


def captured(m: Module, sums: Format, chain: Format, total: Value, word: Value, load: Value) -> Value:
    """What goes to the drain memory: a word if ``load``, else the adder's ``total`` as a word of the chain."""
    if not isinstance(sums, Fixed) or not isinstance(chain, Fixed):
        return Mux(load, word, total)
    size, negative = chain.bits - 1, total[-1]
    rest = sums.fraction_bits - chain.fraction_bits
    kept = total[rest:rest + size] | total[:rest].any()
    return Cat(_chosen(m, "captured", kept, word[:size], load, beyond(total[rest:], chain), ~negative),
               Mux(load, word[-1], negative))
