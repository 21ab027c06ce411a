"""A block under free inputs, with what is assumed of them and what is claimed of its outputs."""

import sys
from types import FrameType
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import Assert, Assume, ClockDomain, Fragment, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In


def opened(block: Any, peeked: tuple[str, ...] = ()) -> tuple[Fragment, dict[str, Any]]:
    """A block elaborated, and the local variables of its ``elaborate``: state that invariants speak of; of memories
    ``peeked`` at, under their name with ``_peek``, one more read port without a clock."""
    found: dict[str, Any] = {}
    code = type(block).elaborate.__code__

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event == "return" and frame.f_code is code and not found:
            found.update(frame.f_locals)
            found.update({f"{name}_peek": found[name].read_port(domain="comb") for name in peeked})

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        fragment = Fragment.get(block, None)
    finally:
        sys.setprofile(before)
    return fragment, found


class Harness:
    """What a proof is built in. After reset, which has been: registers hold their initial values in the first cycle.

    Parameters
    ----------
    only : str or None
        The one claim that counts; None: all, with the invariants that they need.
    """

    def __init__(self, only: str | None = None) -> None:
        self.m = Module()
        self._clock = ClockDomain("sync", reset_less=True)
        self.m.domains += self._clock
        self._only = only
        self._ports: list[Signal] = [self._clock.clk]
        self.claims: list[str] = []
        #: The first cycle.
        self.first = Signal(init=1)
        self.m.d.sync += self.first.eq(0)

    def free(self, shape: Any, name: str) -> Signal:
        """An input that may be anything in every cycle."""
        signal = Signal(shape, name=name)
        self._ports.append(signal if isinstance(signal, Signal) else Value.cast(signal))
        return signal

    def fixed(self, shape: Any, name: str) -> Signal:
        """An input that may be anything, always the same."""
        signal = self.free(shape, name)
        held = self.past(signal)
        self.assume(self.first | (signal == held))
        return signal

    def block(self, block: wiring.Component, driven: tuple[str, ...] = (), peeked: tuple[str, ...] = ()
              ) -> dict[str, Any]:
        """Add the block; its inputs are free, but for those members that the proof drives. Returns its state, as
        :func:`opened`."""
        fragment, state = opened(block, peeked)
        self.m.submodules.block = fragment
        for path, member, value in block.signature.flatten(block):
            if member.flow == In and str(path[0]) not in driven:
                self._ports.append(Value.cast(value))
        return state

    def past(self, value: Any) -> Signal:
        """``value`` in the cycle before; 0 before the first."""
        held = Signal(Value.cast(value).shape(), name="past")
        self.m.d.sync += held.eq(value)
        return held

    def assume(self, condition: Any) -> None:
        """Neighbours see to it that this holds."""
        self.m.d.comb += Assume(condition)

    def claim(self, name: str, condition: Any) -> None:
        """The property ``name``, or a part of it: this holds in every cycle."""
        if name not in self.claims:
            self.claims.append(name)
        if self._only in (None, name):
            self.m.d.comb += Assert(condition)

    def invariant(self, condition: Any) -> None:
        """This holds in every reachable state, and is proved along; it rules out states that are none."""
        if self._only is None:
            self.m.d.comb += Assert(condition)

    def stable(self, stream: Any, payload: Any = None) -> Value:
        """Whether an offer that was not taken in the cycle before stands, unchanged."""
        what = Value.cast(stream.payload if payload is None else payload)
        held = self.past(stream.valid & ~stream.ready)
        return ~held | (stream.valid & (what == self.past(what)))

    def rtlil(self) -> str:
        """The whole as Yosys reads it."""
        return rtlil.convert(self.m, ports=self._ports)
