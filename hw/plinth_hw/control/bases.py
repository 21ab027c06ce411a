"""Choice of a base register for a pointer of a task's body.

Each base register has a register of its own here, zero but for the one wanted, and the base is the OR of all: 5 LUT4
of a bit for 16 registers instead of 12 and more.
"""

from amaranth.hdl import Module, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.registers import BASE_COUNT
from plinth_hw.lib.choice import one_registered


class BaseChoice(wiring.Component):
    """One of the base registers.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    bases : In
        The base registers.
    number : In(4)
        Which one.
    enable : In(1)
        Else zero.
    base : Out
        One cycle later.
    """

    def __init__(self, parameters: DieParameters) -> None:
        self.parameters = parameters
        super().__init__({
            "bases": In(data.ArrayLayout(unsigned(parameters.address_bits), BASE_COUNT)),
            "number": In(range(BASE_COUNT)), "enable": In(1), "base": Out(parameters.address_bits),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        numbers = range(BASE_COUNT)
        m.d.comb += self.base.eq(one_registered(
            m, "base", [self.enable & (self.number == number) for number in numbers],
            [self.bases[number] for number in numbers]))
        return m
