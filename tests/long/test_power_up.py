"""2,040 runs from any power-up state, most of them behind resets in the middle of work, on every machine and option."""

import pytest
from tests.support import dies
from tests.support.power_up import campaign

from plinth_hw.isa.frames import BridgeParameters

pytestmark = pytest.mark.long

#: Runs on each kind of die.
RUNS, SERIAL_RUNS = 118, 34


@pytest.mark.parametrize(("name", "count"), [
    ("NDP", 3), ("MIXED", 3), ("FIXED", 3), ("ROWS", 3), ("ROWS_MIXED", 2), ("ROWS_FIXED", 2), ("LINKED", 3),
    ("POWERED_TILES", 4), ("POWERED_FIXED", 2), ("PREDICTING", 3), ("PREDICTING_PAIRS", 2), ("MIXED_TILES", 2),
    ("TRANSFORMING", 3), ("ROUTING", 3), ("LINK_TRAFFIC", 3), ("ALONE", 1), ("ON_CHIP", 2)])
def test_every_option(name: str, count: int) -> None:
    die = getattr(dies, name)
    campaign(die, count, die.block_ram_words if not die.axi_ports else 1 << 16, RUNS, 20)


def test_behind_a_serial_line() -> None:
    campaign(dies.SERIAL, 2, dies.SERIAL.block_ram_words, SERIAL_RUNS, 6, BridgeParameters(cycles_per_bit=4))
