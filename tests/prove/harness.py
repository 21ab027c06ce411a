"""A block under free inputs, with what is assumed of them and what is claimed of its outputs."""

import enum
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from types import CodeType, FrameType, FunctionType
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import Assert, Assume, Cat, ClockDomain, Const, DomainRenamer, Fragment, Module, Signal, Value
from amaranth.hdl._ast import Initial
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In
from tests.prove.queue import Queue

from plinth_hw.lib.fifo import Storage


def opened(block: Any, peeked: tuple[str, ...] = ()) -> tuple[Fragment, dict[str, Any]]:
    """A block elaborated, and the local variables of ``elaborate`` and its other methods: state for invariants.

    Of memories ``peeked`` at, wherever within, there is one more read port without a clock for each time that they
    are named, in a list under their name with ``_peek``; if there is one state machine, ``in_state`` tells of a
    state's name whether it is in it; ``signals`` are its own by their names; ``inside`` gives the same variables of a
    component within.
    """
    variables: dict[str, Any] = {}
    within: dict[int, dict[str, Any]] = {id(block): variables}
    # Code that is no component's, by its identity: most that runs, and to ask a frame for its variables takes long.
    foreign: dict[int, CodeType] = {}

    def watch(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "return" or id(code) in foreign:
            return
        here = frame.f_locals
        owner = here.get("self")
        if not isinstance(owner, wiring.Component):
            foreign[id(code)] = code
            return
        if not any(isinstance(method, FunctionType) and method.__code__ is code
                   for method in vars(type(owner)).values()):
            return
        known = within.setdefault(id(owner), {})
        new = {name: value for name, value in here.items() if name not in known}
        known.update(new)
        for name in peeked:
            if isinstance(new.get(name), Memory):
                variables.setdefault(f"{name}_peek", []).append(new[name].read_port(domain="comb"))

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        fragment = Fragment.get(block, None)
    finally:
        sys.setprofile(before)
    variables["signals"] = {signal.name: signal for statements in fragment.statements.values()
                            for statement in statements for signal in statement._lhs_signals()}
    if "fsm_state" in variables["signals"]:
        variables["in_state"] = _states(variables["signals"]["fsm_state"])
    variables["inside"] = lambda component: within[id(component)]
    return fragment, variables


def _states(state: Signal) -> Callable[..., Value]:
    """Whether a state machine is in one of the states of these names."""
    numbers: dict[str, int] = {}
    with suppress(KeyError):
        for number in range(1 << len(state)):
            numbers[str(state.decoder(number)).split("/")[0]] = number

    def within(*names: str) -> Value:
        return Cat(state == numbers[name] for name in names).any()

    return within


class Start(enum.Enum):
    """What there is before the first cycle that counts."""

    #: Registers and memories hold their initial values.
    INITIAL = "initial values"
    #: They hold anything; then there is a cycle of reset, in which neither neighbours nor the block keep to anything.
    RESET = "any state, and a cycle of reset"
    #: The same, but for the block, which is not reset: claims that rest on its state fail.
    NEVER = "any state, and no reset"


#: Clock domain of a block that is not reset.
_UNRESET = "unreset"
#: What of a design in RTLIL says how it starts.
_INITIAL_VALUES = re.compile(r"^ *attribute \\init .*\n|^ *cell \$meminit(?:_v2)? .*\n(?:.*\n)*?^ *end\n", re.MULTILINE)


class Harness:
    """What a proof is built in.

    Parameters
    ----------
    only : str or None
        The one claim that counts; None: all, with the invariants that they need.
    start : Start
    """

    def __init__(self, only: str | None = None, start: Start = Start.INITIAL) -> None:
        self.m = Module()
        self._start = start
        self._clock = ClockDomain("sync", reset_less=start is Start.INITIAL)
        self.m.domains += self._clock
        #: It is before the first cycle that counts.
        self._before: Value = Const(0) if start is Start.INITIAL else Initial()
        if start is not Start.INITIAL:
            self.m.d.comb += self._clock.rst.eq(self._before)
        if start is Start.NEVER:
            self.m.domains += (unreset := ClockDomain(_UNRESET, reset_less=True))
            self.m.d.comb += unreset.clk.eq(self._clock.clk)
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

    def block(self, block: wiring.Component, peeked: tuple[str, ...] = (), name: str = "block") -> dict[str, Any]:
        """Add the block, or one more of this name; its inputs are free. Returns its state, as :func:`opened`."""
        fragment, state = opened(block, peeked)
        self.m.submodules[name] = (
            DomainRenamer({"sync": _UNRESET})(fragment) if self._start is Start.NEVER else fragment)
        for _, member, value in block.signature.flatten(block):
            if member.flow == In:
                self._ports.append(Value.cast(value))
        return state

    def queue(self, shape: Any, depth: int, storage: Storage = Storage.LUT) -> Queue:
        """What a FIFO promises; in place of one that is proved by itself."""
        queue = Queue(shape, depth, storage)
        self._ports.append(queue.free)
        self.invariant(queue.count <= depth)
        return queue

    def past(self, value: Any) -> Signal:
        """``value`` in the cycle before; 0 before the first."""
        held = Signal(Value.cast(value).shape(), name="past")
        self.m.d.sync += held.eq(value)
        return held

    def assume(self, condition: Any) -> None:
        """Neighbours see to it that this holds."""
        self.m.d.comb += Assume(self._before | Value.cast(condition).any())

    def hint(self, condition: Any) -> None:
        """What is assumed only where a broken twin is looked for: it fails so, and there is less to search."""
        if self._only is not None:
            self.assume(condition)

    def claim(self, name: str, condition: Any) -> None:
        """The property ``name``, or a part of it: this holds in every cycle."""
        if name not in self.claims:
            self.claims.append(name)
        if self._only in (None, name):
            self.m.d.comb += Assert(self._before | Value.cast(condition).any(), src_loc_at=1)

    def invariant(self, condition: Any) -> None:
        """This holds in every reachable state, and is proved along; it rules out states that are none."""
        if self._only is None:
            self.m.d.comb += Assert(self._before | Value.cast(condition).any(), src_loc_at=1)

    def stands(self, valid: Value, ready: Value, offer: Any) -> Value:
        """Whether an offer that was not taken in the cycle before stands, unchanged."""
        return ~self.past(valid & ~ready) | (valid & (offer == self.past(offer)))

    def stable(self, stream: Any) -> Value:
        """The same of a stream."""
        return self.stands(stream.valid, stream.ready, Value.cast(stream.payload))

    def rtlil(self) -> str:
        """The whole as Yosys reads it."""
        text = rtlil.convert(self.m, ports=self._ports)
        if self._start is Start.INITIAL:
            return text
        free = _INITIAL_VALUES.sub("", text)
        if "$meminit" in free or "attribute \\init " in free:
            raise AssertionError("initial values are written otherwise than is known here, and would stay")
        return free


def follows_turn(first: Value, last: Value) -> Value:
    """Whether an arbiter's ``first`` are the bits above the one that is set in ``last``."""
    return one_hot(last) & (first == ~(last | (last - 1))[:len(last)])


def one_hot(bits: Value) -> Value:
    """Whether one bit is set."""
    return (bits != 0) & ((bits & (bits - 1)[:len(bits)]) == 0)
