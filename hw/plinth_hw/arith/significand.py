"""Product of two significands in two register stages, in the form that the target makes best use of.

Generic (simulation, ASIC, other FPGAs): registered operands, one inferred multiplication, a product register that a
retiming synthesiser may move, as it may the one that the client has behind it. ECP5: ``MULT18X18D`` with its own
input and output registers (which synthesis does not infer), and carry-chain adders behind them, for which the client
has a stage.
"""

from typing import Any

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

#: Operand bits of the ECP5 multiplier.
ECP5_MULTIPLIER_BITS = 18


def mult18(m: Module, name: str, a: Value, b: Value) -> Value:
    """``a * b`` of at most 18 bits each, both signed or neither, by one MULT18X18D with input and output registers:
    two cycles."""
    bits = ECP5_MULTIPLIER_BITS
    product = Signal(2 * bits, name=name)
    signs = int(a.shape().signed)
    clock = {f"i_CLK{i}": ClockSignal() if i == 0 else Const(0, 1) for i in range(4)}
    enable = {f"i_CE{i}": Const(1, 1) for i in range(4)}
    reset = {f"i_RST{i}": Const(0, 1) for i in range(4)}
    operands = {f"i_{letter}{i}": operand[i] if i < len(operand) else operand[-1] if signs else Const(0, 1)
                for letter, operand in (("A", a), ("B", b)) for i in range(bits)}
    outputs = {f"o_P{i}": product[i] for i in range(2 * bits)}
    m.submodules[name] = Instance(
        "MULT18X18D",
        p_REG_INPUTA_CLK="CLK0", p_REG_INPUTB_CLK="CLK0", p_REG_OUTPUT_CLK="CLK0",
        p_REG_PIPELINE_CLK="NONE", p_REG_INPUTC_CLK="NONE",
        p_CLK0_DIV="ENABLED", p_GSR="DISABLED", p_SOURCEB_MODE="B_SHIFT", p_RESETMODE="SYNC",
        i_SIGNEDA=Const(signs, 1), i_SIGNEDB=Const(signs, 1), i_SOURCEA=Const(0, 1), i_SOURCEB=Const(0, 1),
        **clock, **enable, **reset, **operands, **outputs)
    return product[:len(a) + len(b)]


class SignificandMultiplier(wiring.Component):
    """``o = a * b``, unsigned.

    The platform chooses the form: one whose ``family`` is ``"ecp5"`` gets ``MULT18X18D``.

    Parameters
    ----------
    width : int
        Bits of ``a`` and ``b``.

    Members
    -------
    a, b : In
        Operands, taken every cycle.
    o : Out
        Product, ``2 * width`` bits, of the operands of ``latency`` cycles before.

    Raises
    ------
    TypeError
        If ``width`` is not an integer.
    ValueError
        If ``width`` is not positive.
    """

    #: Cycles from operands to product.
    latency = 2

    def __init__(self, width: int):
        if not isinstance(width, int) or isinstance(width, bool):
            raise TypeError(f"Significand width must be an integer, not {width!r}")
        if width < 1:
            raise ValueError(f"Significand width must be positive, not {width!r}")
        self._width = width
        super().__init__({"a": In(width), "b": In(width), "o": Out(2 * width)})

    @property
    def width(self) -> int:
        """Bits of an operand."""
        return self._width

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        if getattr(platform, "family", None) == "ecp5" and self._width <= 2 * ECP5_MULTIPLIER_BITS:
            self._ecp5(m)
        else:
            self._generic(m)
        return m

    def _generic(self, m: Module) -> None:
        a, b = Signal(self._width, reset_less=True, name="a"), Signal(self._width, reset_less=True, name="b")
        product = Signal(2 * self._width, reset_less=True)
        m.d.sync += [a.eq(self.a), b.eq(self.b), product.eq(a * b)]
        m.d.comb += self.o.eq(product)

    def _ecp5(self, m: Module) -> None:
        low = min(self._width, ECP5_MULTIPLIER_BITS)
        if low == self._width:
            m.d.comb += self.o.eq(mult18(m, "product", self.a, self.b))
            return
        # (ah 2^low + al) (bh 2^low + bl): the outer products do not overlap.
        outer = Cat(mult18(m, "low", self.a[:low], self.b[:low]),
                    mult18(m, "high", self.a[low:], self.b[low:]))
        inner = Signal(self._width + 1)
        m.d.comb += inner.eq(mult18(m, "cross_a", self.a[low:], self.b[:low])
                             + mult18(m, "cross_b", self.a[:low], self.b[low:]))
        m.d.comb += self.o.eq(Cat(outer[:low], outer[low:] + inner))
