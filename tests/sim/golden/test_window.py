"""Memory by window registers, on the golden model: the same words as directly, for any place and length."""

import numpy as np
import pytest

from plinth_hw.isa.formats import Q3_12
from plinth_hw.isa.identity import identity
from plinth_hw.isa.parameters import DieParameters, preset
from plinth_hw.isa.registers import Register
from plinth_hw.isa.window import WindowMemory
from plinth_sim.golden.array import GoldenArray
from plinth_sim.golden.device import GoldenDevice

WHOLE = preset("ndp-tiny", window=True)
HALF = preset("ndp-tiny", window=True, multiply_format=Q3_12)
WORDS = 64


def window_of(die: GoldenDevice) -> WindowMemory:
    """Its memory, by registers alone."""
    def write(writes):
        for address, value in writes:
            die.write_register(address, value)

    return WindowMemory(die.parameters, lambda addresses: [die.read_register(address) for address in addresses], write)


@pytest.mark.parametrize("parameters", [WHOLE, HALF], ids=["32 bits", "16 bits"])
def test_any_words_at_any_place(parameters: DieParameters) -> None:
    rng = np.random.default_rng(0)
    die = GoldenArray(parameters, 1, WORDS).dies[0]
    window, dtype = window_of(die), die.memory.dtype
    die.memory[:] = rng.integers(0, 1 << parameters.word_bits, WORDS)
    expected = die.memory.copy()
    for _ in range(200):
        first = int(rng.integers(WORDS))
        count = int(rng.integers(min(8, WORDS - first) + 1))
        if rng.random() < 0.5:
            words = window.read(first, count)
            assert words.dtype == dtype and (words == expected[first:first + count]).all()
        else:
            expected[first:first + count] = rng.integers(0, 1 << parameters.word_bits, count)
            window.write(first, expected[first:first + count])
            assert (die.memory == expected).all()
    window.write(2, np.array([0x1234_5678], np.uint32))
    assert die.memory[2:4].view(np.uint32)[0] == 0x1234_5678 if parameters is HALF else die.memory[2] == 0x1234_5678


def test_other_registers_are_no_window() -> None:
    die, plain = (GoldenArray(parameters, 1, WORDS).dies[0] for parameters in (WHOLE, preset("ndp-tiny")))
    for device in (die, plain):
        device.memory[:] = 7
        device.write_register(Register.TASK_BASE, 5)
        assert (device.read_register(Register.TASK_BASE), device.read_register(Register.STATUS)) == (5, 0)
        assert device.read_register(Register.WINDOW_ADDRESS) == 0 and (device.memory == 7).all()
    assert (die.read_register(Register.WINDOW_DATA), plain.read_register(Register.WINDOW_DATA)) == (7, 0)


def test_what_is_not_there_is_refused() -> None:
    die = GoldenArray(HALF, 1, WORDS).dies[0]
    with pytest.raises(ValueError, match="WINDOW_ADDRESS is 64, beyond the memory of 64 words"):
        window_of(die).read(62, 4)
    with pytest.raises(ValueError, match="dies of ndp-tiny have no memory window; choose window = True"):
        WindowMemory(preset("ndp-tiny"), list, list)


def test_a_golden_die_tells_what_it_is() -> None:
    die = GoldenArray(HALF, 1, WORDS).dies[0]
    assert {register: die.read_register(register) for register in identity(HALF)} == identity(HALF)
    assert die.read_register(Register.VERILOG_DIGEST) == 0
