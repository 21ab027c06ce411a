"""Top of a ULX3S with an LFE5U-85F: clock, reset, serial line and LEDs around a serial die.

::

    clk25 -> EHXPLLL -> sync          button FIRE1, PLL not locked -> reset
    FTDI's txd, rxd <-> die's rx, tx  LEDs D0 to D3: busy, done, error, heartbeat

The die is an instance of a module that stands in a file of its own. The board's reset is released two cycles after the
button and the lock, in step with the clock; that of the die lasts for ``RESET_CYCLES`` at least, however short the
button's contact was. The heartbeat is a counter of the die's clock:
it goes on and off one and a half times a second at 100 MHz, and stands still while the clock does.
"""

from typing import Any

from amaranth.hdl import ClockDomain, ClockSignal, Elaboratable, Module, Signal
from amaranth.lib import io, wiring
from amaranth.lib.cdc import ResetSynchronizer
from amaranth.lib.wiring import In, Out

from plinth_hw import emit
from plinth_hw.board import pll
from plinth_hw.isa.parameters import RESET_CYCLES

#: What a serial die has beside clock and reset. The line idles high; ``rx`` belongs to no clock. The others say what
#: STATUS says.
SERIAL_DIE = wiring.Signature({"rx": In(1), "tx": Out(1, init=1), "busy": Out(1), "done": Out(1), "error": Out(1)})
#: Module of the serial die.
MODULE = "serial_die"
#: Bits of the heartbeat's counter, of which the last is seen.
HEARTBEAT_BITS = 26


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
    clock_hz : int
        The clock is the fastest that the PLL can make and that is not faster.

    Attributes
    ----------
    pll : PLL
        What it makes.

    Raises
    ------
    ValueError
        If the PLL cannot make such a clock.
    """

    #: Of the crystal.
    CRYSTAL_HZ = 25_000_000

    def __init__(self, clock_hz: int) -> None:
        self.pll = pll.search(self.CRYSTAL_HZ, clock_hz)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.crystal = crystal = io.Buffer("i", platform.request("clk25", dir="-"))
        m.submodules.button = button = io.Buffer("i", platform.request("button_fire", 0, dir="-"))
        lock = Signal()
        m.domains.sync = ClockDomain()
        m.submodules.pll = self.pll.instance(crystal.i, ClockSignal(), lock)
        m.submodules.reset = ResetSynchronizer(button.i | ~lock)

        m.submodules.extension = extension = ResetExtension()

        die = SERIAL_DIE.create(path=("die",))
        emit.instance(m, die, name="die", module=MODULE, reset=extension.o)
        pins = platform.request("uart", 0, dir=dict.fromkeys(("rx", "tx", "rts", "dtr"), "-"))
        m.submodules.rx = rx = io.Buffer("i", pins.rx)
        m.submodules.tx = tx = io.Buffer("o", pins.tx)
        heartbeat = Signal(HEARTBEAT_BITS)
        m.d.sync += heartbeat.eq(heartbeat + 1)
        m.d.comb += [die.rx.eq(rx.i), tx.o.eq(die.tx)]
        for number, value in enumerate((die.busy, die.done, die.error, heartbeat[-1])):
            led = io.Buffer("o", platform.request("led", number, dir="-"))
            m.submodules[f"led_{number}"] = led
            m.d.comb += led.o.eq(value)
        return m
