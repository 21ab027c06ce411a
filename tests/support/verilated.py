"""Amaranth's test benches on a component under Verilator, where Amaranth's own simulator takes long.

::

    model = Verilated(Router(parameters))          # builds are cached
    model.simulate(bench, background=[watch])      # as tests.support.amaranth_sim.simulate

A bench is given what it uses of Amaranth's ``TestbenchContext``: ``set`` and ``get`` of ports, of parts of them and of
expressions of them, and ``tick`` with ``sample``, ``until`` and ``repeat``. What is set is seen by all that depends on
it at once; a sample is what there is just before the clock edge. Other signals than ports cannot be reached.
"""

import ctypes
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from amaranth.hdl import Const, Shape, ShapeCastable, Signal, Value, ValueCastable
from amaranth.lib import wiring
from amaranth.sim import _pyeval as pyeval

from plinth_hw import emit
from plinth_sim.rtl.pins import module_ports
from plinth_sim.rtl.verilator import FAST_FLAGS, build_library

HARNESS = Path(__file__).with_name("verilated_harness.cpp")
_TOP = "bench_top"
_WORD_BITS = 64

Bench = Callable[[Any], Coroutine[Any, Any, Any]]


class _Place:
    """Words of a port, as Amaranth's evaluation of expressions wants the state of a signal."""

    #: So that it may be assigned.
    is_comb = False

    def __init__(self, values: "_Values", signal: Signal, first: int, driven: bool):
        self.values, self.driven, self.name = values, driven, signal.name
        bits, self.signed = len(signal), signal.shape().signed
        self.mask, self.top = (1 << bits) - 1, 1 << bits >> 1
        self.first, self.bytes = first, slice(8 * first, 8 * (first + _words(bits)))
        self.is_word = bits <= _WORD_BITS

    @property
    def bits(self) -> int:
        """What is there, without a sign."""
        if self.is_word:
            return self.values.words[self.first]
        return int.from_bytes(self.values.bytes[self.bytes], "little")

    @property
    def curr(self) -> int:
        """Its value."""
        bits = self.bits
        return bits - self.mask - 1 if self.signed and bits & self.top else bits

    next = curr

    def update(self, value: int) -> None:
        """Set it."""
        if not self.driven:
            raise ValueError(f"{self.name} is not an input")
        bits = value & self.mask
        if bits == self.bits:
            return
        if self.is_word:
            self.values.words[self.first] = bits
        else:
            self.values.bytes[self.bytes] = bits.to_bytes(self.bytes.stop - self.bytes.start, "little")
        self.values.settled = False


class _Values:
    """Values of all ports; a simulation as Amaranth's evaluation of expressions knows one."""

    def __init__(self, words: int):
        self.bytes = memoryview(bytearray(8 * words))
        self.words = self.bytes.cast("Q")
        self.settled = False
        self.slots: list[_Place] = []
        self._numbers: dict[int, int] = {}

    def add(self, signal: Signal, first: int, driven: bool) -> None:
        """A port from a word on."""
        self._numbers[id(signal)] = len(self.slots)
        self.slots.append(_Place(self, signal, first, driven))
        if driven:
            self.slots[-1].update(signal.init)

    def get_signal(self, signal: Signal) -> int:
        """Number of its place."""
        try:
            return self._numbers[id(signal)]
        except KeyError:
            raise ValueError(f"{signal.name} is not a port of what is simulated") from None

    def place(self, signal: Value) -> _Place:
        """Of a port."""
        assert isinstance(signal, Signal)
        return self.slots[self.get_signal(signal)]

    def value(self, expression: Any) -> Any:
        """Of a port, a part of one or an expression, in its shape."""
        if type(expression) is Signal:
            return self.slots[self.get_signal(expression)].curr
        bits = pyeval.eval_value(self, Value.cast(expression))
        if isinstance(expression, ValueCastable):
            shape = expression.shape()
            if isinstance(shape, ShapeCastable):
                return shape.from_bits(bits)
        return bits


class _Tick:
    """The next clock edge, with what is sampled just before."""

    def __init__(self, sampled: tuple[Any, ...] = ()):
        self._sampled = sampled

    def sample(self, *expressions: Any) -> "_Tick":
        """The same with further samples."""
        return _Tick((*self._sampled, *expressions))

    def __await__(self) -> Generator[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
        """Whether there was an edge, whether it was a reset, samples."""
        values = yield self._sampled
        return (True, False, *values)

    async def __aiter__(self) -> AsyncIterator[tuple[Any, ...]]:
        while True:
            yield await self

    async def until(self, condition: Any) -> tuple[Any, ...]:
        """Samples of the first edge at which the condition holds."""
        if isinstance(condition, ValueCastable) and not isinstance(condition.shape(), Shape):
            raise TypeError(f"The shape of a condition must be signed or unsigned, not {condition.shape()!r}")
        tick = self.sample(condition)
        while True:
            _, _, *values, holds = await tick
            if holds:
                return tuple(values)

    async def repeat(self, count: int) -> tuple[Any, ...]:
        """Samples of the last of so many edges."""
        if count <= 0:
            raise ValueError(f"Repeat count must be a positive integer, not {count!r}")
        values: tuple[Any, ...] = ()
        for _ in range(count):
            _, _, *values = await self
        return tuple(values)


class _Context:
    """What benches are given."""

    def __init__(self, values: _Values, settle: Callable[[], None]):
        self._values, self._settle = values, settle

    def set(self, expression: Any, value: Any) -> None:
        """Set an input, or a part of one."""
        if type(expression) is Signal and isinstance(value, int):
            self._values.place(expression).update(value)
            return
        if isinstance(expression, ValueCastable):
            shape = expression.shape()
            if isinstance(shape, ShapeCastable):
                value = shape.const(value)
        pyeval.eval_assign(self._values, Value.cast(expression), Const.cast(value).value)

    def get(self, expression: Any) -> Any:
        """The value that there is now."""
        if not self._values.settled:
            self._settle()
        return self._values.value(expression)

    def tick(self) -> _Tick:
        """The next edge of the clock."""
        return _Tick()


class _Process:
    """A bench that runs."""

    def __init__(self, bench: Bench, context: _Context):
        self._coroutine = bench(context)
        #: What it wants sampled at the next edge; None if it has ended.
        self.wanted: tuple[Any, ...] | None = None

    def run(self, values: tuple[Any, ...] | None) -> None:
        """To its next wait."""
        try:
            self.wanted = self._coroutine.send(values)
        except StopIteration:
            self.wanted = None

    def close(self) -> None:
        """End it."""
        self._coroutine.close()


def _words(bits: int) -> int:
    return -(-bits // _WORD_BITS)


def _wires(one: Any, other: Any) -> Iterator[tuple[Value, Value]]:
    """From where to where each wire between two interfaces leads."""
    for (path, member, value), (other_path, _, other_value) in zip(
            one.signature.flatten(one), other.signature.flatten(other), strict=True):
        assert path == other_path
        wire = Value.cast(value), Value.cast(other_value)
        yield wire if member.flow is wiring.Out else wire[::-1]


class Verilated:
    """A component, built once (builds are cached).

    Parameters
    ----------
    component : wiring.Component
        With a clock, and ports of the ``sync`` domain alone.
    """

    def __init__(self, component: wiring.Component):
        self.component = component
        text = emit.verilog(component, _TOP, flatten=True)
        drive, observe, self._words = [], [], 0
        for name, flow, bits in self._ports(component):
            way = drive if flow is wiring.In else observe
            way.append(f"{'put' if flow is wiring.In else 'take'}(model.{name}, words + {self._words});")
            self._words += _words(bits)
        idle = "model.rst = 0;" if "rst" in module_ports(text, _TOP) else ""
        header = (f"constexpr size_t WORDS = {self._words};\n"
                  f"static void drive(Vmodel &model, const uint64_t *words) {{\n{idle}\n" + "\n".join(drive) + "\n}\n"
                  "static void observe(Vmodel &model, uint64_t *words) {\n" + "\n".join(observe) + "\n}\n")
        library = ctypes.CDLL(str(build_library({"bench.v": text}, _TOP, cpp=[HARNESS],
                                                headers={"bench_ports.h": header}, flags=FAST_FLAGS, jobs=1)))
        self._make, self._end = library.bench_make, library.bench_end
        self._make.restype = ctypes.c_void_p
        self._settle, self._tick = library.bench_settle, library.bench_tick

    @staticmethod
    def _ports(component: Any) -> list[tuple[str, Any, int]]:
        """Name, direction and bits, in the order of their words."""
        return [(port.name, port.flow, len(port.value)) for port in emit.ports(component) if len(port.value)]

    def copy(self) -> Any:
        """Ports of another one like the component."""
        return self.component.signature.create()

    def simulate(self, *benches: Bench, limit_cycles: int = 1_000_000, background: Iterable[Bench] = (),
                 copies: Sequence[Any] | None = None, links: Iterable[tuple[Any, Any]] = ()) -> None:
        """Run test benches until all end, on a component that begins anew; background ones do not hold it open.

        Parameters
        ----------
        copies : sequence of interfaces
            Of :meth:`copy`: so many are simulated, and benches use these ports in place of the component's own.
        links : iterable of pairs of interfaces
            Of these, joined as by ``wiring.connect``.

        Raises
        ------
        AssertionError
            When the benches have not ended after ``limit_cycles``.
        """
        copies = [self.component] if copies is None else copies
        values = _Values(len(copies) * self._words)
        wires = self._placed(values, copies, links)
        array = (ctypes.c_uint64 * len(wires))(*wires)
        words = (ctypes.c_uint64 * len(values.words)).from_buffer(values.bytes)
        model = ctypes.c_void_p(self._make(ctypes.c_uint64(len(copies)), words, array,
                                           ctypes.c_uint64(len(wires) // 3)))

        def settle() -> None:
            if not self._settle(model):
                raise ValueError("ports are joined to a loop that does not settle")
            values.settled = True

        context = _Context(values, settle)
        processes: list[_Process] = []
        try:
            processes += [_Process(bench, context) for bench in (*benches, *background)]
            self._run(model, values, settle, processes, len(benches), limit_cycles)
        finally:
            for process in processes:
                process.close()
            self._end(model)

    def _placed(self, values: _Values, copies: Sequence[Any], links: Iterable[tuple[Any, Any]]
                ) -> list[int]:
        """Gives the ports of all copies their words; of each wire of links the words from and to which it leads, and
        how many."""
        joined = [wire for pair in links for wire in _wires(*pair)]
        sinks = {id(sink) for _, sink in joined}
        first = 0
        for copy in copies:
            assert self._ports(copy) == self._ports(self.component), "copies are not what was built"
            for port in emit.ports(copy):
                if bits := len(port.value):
                    values.add(port.value, first, port.flow is wiring.In and id(port.value) not in sinks)
                    first += _words(bits)
        return [number for source, sink in joined
                for number in (values.place(source).first, values.place(sink).first, _words(len(sink)))]

    def _run(self, model: ctypes.c_void_p, values: _Values, settle: Callable[[], None], processes: list[_Process],
             benches: int, limit_cycles: int) -> None:
        """Until all benches have ended."""
        for process in processes:
            process.run(None)
        cycles = 0
        while any(process.wanted is not None for process in processes[:benches]):
            if cycles == limit_cycles:
                raise AssertionError(f"the test bench did not end within {limit_cycles} cycles")
            if not values.settled:
                settle()
            waiting = [(process, tuple(map(values.value, process.wanted)))
                       for process in processes if process.wanted is not None]
            self._tick(model)
            values.settled = False
            for process, sampled in waiting:
                process.run(sampled)
            cycles += 1
