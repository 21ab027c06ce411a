"""Every register of the smallest die of each machine, read and written through the pins after a program."""

import pytest
from tests.support.dies import FIXED, NDP, ROWS
from tests.support.graphs import random_program

from plinth.driver.driver import Driver
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.register_map import Entry, register_map
from plinth_hw.isa.registers import Access, Register
from plinth_sim.rtl.cosim import CosimArray

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("tiny-dies")]

MEMORY_WORDS = 1 << 16


def places(entry: Entry) -> list[int]:
    """Addresses of an entry's words."""
    return [entry.address + entry.step * number + offset for number in range(entry.count)
            for offset in range(0, entry.bits // 8, 4)]


@pytest.mark.parametrize("die", [NDP, FIXED, ROWS], ids=["ndp", "fixed", "rows"])
def test_every_register(die: DieParameters) -> None:
    """What the host may write holds what was written; what it may not does not change; constants are as declared."""
    program, _ = random_program(die, 2, 3, 20, MEMORY_WORDS)
    with CosimArray(die, 2, MEMORY_WORDS) as rtl:
        Driver(rtl, program, memory_words=MEMORY_WORDS).step(0)
        device = rtl.dies[0]
        for entry in register_map(die):
            mask = sum(((1 << field.bits) - 1) << field.low for field in entry.fields)
            where = places(entry)
            before = rtl.read_registers(0, where)
            assert not any(value & ~mask for value in before) or entry.bits > 32, entry.name
            if entry.access is Access.RW:
                for pattern in (mask, mask & 0x5555_5555, 0):
                    for address in where:
                        rtl.queue_write(0, address, pattern)
                    # A port that does not exist is none to lead to.
                    wanted = [pattern] * len(where) if entry.name != "ROUTES" else None
                    after = rtl.read_registers(0, where)
                    assert wanted is None or after == wanted, entry.name
                for address, value in zip(where, before, strict=True):
                    rtl.queue_write(0, address, value)
            elif entry.access is Access.RO:
                for address in where:
                    rtl.queue_write(0, address, ~before[0] & 0xFFFFFFFF)
                if entry.reset is not None:
                    assert rtl.read_registers(0, where) == before == [entry.reset] * len(where), entry.name
        assert device.read_register(Register.ID) == 0x504C494E
