"""Top of a board: clock, reset, serial line and LEDs around a serial die.

::

    crystal -> PLL -> sync            button, PLL not locked -> reset
    line's rx, tx <-> die's rx, tx    LEDs: busy, done, error, heartbeat

The die is an instance of a module that stands in a file of its own. The board's reset is released two cycles after the
button and the lock, in step with the clock; that of the die lasts for ``RESET_CYCLES`` at least, however short the
button's contact was. The heartbeat is a counter of the die's clock:
it goes on and off one and a half times a second at 100 MHz, and stands still while the clock does.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from amaranth.hdl import ClockDomain, ClockSignal, Elaboratable, Instance, Module, Signal, Value
from amaranth.lib import io, wiring
from amaranth.lib.cdc import ResetSynchronizer
from amaranth.lib.wiring import In, Out

from plinth_hw import emit
from plinth_hw.isa.parameters import RESET_CYCLES

#: What a serial die has beside clock and reset. The line idles high; ``rx`` belongs to no clock. The others say what
#: STATUS says.
SERIAL_DIE = wiring.Signature({"rx": In(1), "tx": Out(1, init=1), "busy": Out(1), "done": Out(1), "error": Out(1)})
#: Module of the serial die.
MODULE = "serial_die"
#: Bits of the heartbeat's counter, of which the last is seen.
HEARTBEAT_BITS = 26
#: A pin of a board's resource: its name, its number, and which of its pins, if it has several.
Pin = tuple[str, int, str]


class ClockMaker(Protocol):
    """Makes a clock of another, in an FPGA."""

    @property
    def output_hz(self) -> Fraction:
        """Of the clock that it makes."""
        ...

    def instance(self, clock_in: Value, clock_out: Signal, lock: Signal) -> Elaboratable | Instance:
        """What drives ``clock_out`` and, once that is right, ``lock``."""
        ...


@dataclass(frozen=True)
class Wiring:
    """What a board has for a serial die.

    Attributes
    ----------
    crystal, button, rx, tx : Pin
        A pressed button is reset.
    crystal_hz : int
    leds : tuple of Pin
        Of busy, done, error and heartbeat, as many as there are.
    pll : callable of int, int to ClockMaker
        Of the crystal's clock and the wanted one in Hz; ValueError if there is none.
    """

    crystal: Pin
    crystal_hz: int
    button: Pin
    rx: Pin
    tx: Pin
    leds: tuple[Pin, ...]
    pll: Callable[[int, int], ClockMaker]

    @property
    def pins(self) -> tuple[Pin, ...]:
        """All of them."""
        return self.crystal, self.button, self.rx, self.tx, *self.leds


class ResetExtension(wiring.Component):
    """Tells for how long after its domain's reset the die's reset goes on.

    Members
    -------
    o : Out(1)
        The domain's reset has ended fewer than ``RESET_CYCLES - 1`` cycles ago.
    """

    o: Out(1)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        left = Signal(range(RESET_CYCLES), init=RESET_CYCLES - 1)
        m.d.comb += self.o.eq(left != 0)
        with m.If(self.o):
            m.d.sync += left.eq(left - 1)
        return m


class Top(Elaboratable):
    """The board's top.

    Parameters
    ----------
    wires : Wiring
        Of the board.
    clock_hz : int
        The clock is the fastest that the PLL can make and that is not faster.

    Attributes
    ----------
    pll : ClockMaker
        What it makes.

    Raises
    ------
    ValueError
        If the PLL cannot make such a clock.
    """

    def __init__(self, wires: Wiring, clock_hz: int) -> None:
        self.wires, self.pll = wires, wires.pll(wires.crystal_hz, clock_hz)

    def _ports(self, platform: Any) -> dict[Pin, Any]:
        """The pins' ports: each resource is asked for once, without buffers."""
        resources: dict[tuple[str, int], Any] = {}
        for name, number in dict.fromkeys(pin[:2] for pin in self.wires.pins):
            parts = {own.name: "-" for own in platform.lookup(name, number).ios if hasattr(own, "ios")}
            resources[name, number] = platform.request(name, number, dir=parts or "-")
        return {(name, number, pin): getattr(resources[name, number], pin) if pin else resources[name, number]
                for name, number, pin in self.wires.pins}

    def elaborate(self, platform: Any) -> Module:
        m, wires, ports = Module(), self.wires, self._ports(platform)
        m.submodules.crystal = crystal = io.Buffer("i", ports[wires.crystal])
        m.submodules.button = button = io.Buffer("i", ports[wires.button])
        lock = Signal()
        m.domains.sync = ClockDomain()
        m.submodules.pll = self.pll.instance(crystal.i, ClockSignal(), lock)
        m.submodules.reset = ResetSynchronizer(button.i | ~lock)

        m.submodules.extension = extension = ResetExtension()

        die = SERIAL_DIE.create(path=("die",))
        emit.instance(m, die, name="die", module=MODULE, reset=extension.o)
        m.submodules.rx = rx = io.Buffer("i", ports[wires.rx])
        m.submodules.tx = tx = io.Buffer("o", ports[wires.tx])
        heartbeat = Signal(HEARTBEAT_BITS)
        m.d.sync += heartbeat.eq(heartbeat + 1)
        m.d.comb += [die.rx.eq(rx.i), tx.o.eq(die.tx)]
        for number, (pin, value) in enumerate(zip(wires.leds, (die.busy, die.done, die.error, heartbeat[-1]),
                                                  strict=False)):
            led = io.Buffer("o", ports[pin])
            m.submodules[f"led_{number}"] = led
            m.d.comb += led.o.eq(value)
        return m
