# amaranth: UnusedElaboratable=no
"""A die with a host bridge in front: a board's host needs a serial line and nothing else.

::

    rx, tx <-> Bridge -> axil of the die; all else of the die goes through                 SerialDie
    rx, tx <-> SerialDie -> busy, done, error; its links lead nowhere                      LoneDie
"""

from fractions import Fraction

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from plinth_hw.die import Die
from plinth_hw.host.bridge import Bridge
from plinth_hw.isa.frames import BridgeParameters, bit_cycles
from plinth_hw.isa.parameters import DieParameters


class SerialDie(wiring.Component):
    """A die whose registers are reached over a serial line.

    Parameters
    ----------
    parameters : DieParameters
    bridge : BridgeParameters

    Members
    -------
    rx, tx : In(1), Out(1)
        The line.
    irq, busy, done, error, memory, links
        As those of :class:`~plinth_hw.die.Die`.
    """

    def __init__(self, parameters: DieParameters, bridge: BridgeParameters) -> None:
        self.parameters, self.bridge = parameters, bridge
        self._die = Die(parameters)
        super().__init__({"rx": In(1), "tx": Out(1, init=1),
                          **{name: member for name, member in self._die.signature.members.items() if name != "axil"}})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.die = die = self._die
        m.submodules.bridge = bridge = Bridge(self.bridge)
        connect(m, bridge.axil, die.axil)
        m.d.comb += [bridge.rx.eq(self.rx), self.tx.eq(bridge.tx)]
        for name, member in die.signature.members.items():
            if member.is_signature and name != "axil":
                connect(m, flipped(getattr(self, name)), getattr(die, name))
            elif member.is_port:
                m.d.comb += getattr(self, name).eq(getattr(die, name))
        return m


class LoneDie(wiring.Component):
    """A die with memory on the chip and a host bridge in front, and with no others beside it.

    Parameters
    ----------
    parameters : DieParameters
    bridge : BridgeParameters

    Members
    -------
    rx, tx : In(1), Out(1)
        The line.
    busy, done, error : Out(1)
        As in STATUS.

    Raises
    ------
    ValueError
        If memory is not on the chip alone.
    """

    rx: In(1)
    tx: Out(1, init=1)
    busy: Out(1)
    done: Out(1)
    error: Out(1)

    def __init__(self, parameters: DieParameters, bridge: BridgeParameters) -> None:
        if parameters.axi_ports:
            raise ValueError(f"a die with nothing beside it needs its memory on the chip: {parameters.name} has "
                             f"axi_ports = {parameters.axi_ports}, not 0; choose fpga-ulx3s")
        self._die = SerialDie(parameters, bridge)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.die = die = self._die
        m.d.comb += [die.rx.eq(self.rx),
                     *(getattr(self, name).eq(getattr(die, name)) for name in ("tx", "busy", "done", "error"))]
        return m


def serial_die(parameters: DieParameters, clock_hz: Fraction, baud: int) -> LoneDie:
    """The die of a board, for its clock and the line's rate in bits a second.

    Raises
    ------
    ValueError
        If memory is not on the chip alone, or the line is too fast for the clock.
    """
    return LoneDie(parameters, BridgeParameters(cycles_per_bit=bit_cycles(clock_hz, baud)))
