"""Kernels as users name them."""

import pytest
from tests.support.local import network

from plinth.driver.line import BAUD
from plinth.errors import UserError
from plinth.local.devices import KernelDevice, device_step, kernel_devices
from plinth.network.network import perceptron
from plinth.update.rule import WEIGHTS_LOW


def test_devices_of_a_text() -> None:
    numpy = KernelDevice(kind="numpy")
    assert kernel_devices("2*numpy,1*fpga-demo") == (numpy, numpy, KernelDevice(kind="cosim", preset="fpga-demo"))
    assert kernel_devices(" numpy/4 , golden:fpga-tiny/1.5") == (
        KernelDevice(kind="numpy", slower=4), KernelDevice(kind="golden", preset="fpga-tiny", slower=1.5))
    (board,), (other,) = kernel_devices("serial:fpga-ulx3s:/dev/tty.1@9600"), kernel_devices("serial:fpga-tiny:COM3")
    assert (board.preset, board.port, board.baud) == ("fpga-ulx3s", "/dev/tty.1", 9600)
    assert other.baud == BAUD and other.name == "serial:fpga-tiny:COM3"
    (slow,) = kernel_devices("serial:fpga-tiny:/dev/pts/3@9600/2")
    assert (slow.port, slow.slower, slow.baud) == ("/dev/pts/3", 2, 9600)
    (port,) = kernel_devices("serial:fpga-tiny:/dev/pts/3")
    assert (port.port, port.slower) == ("/dev/pts/3", 1)


@pytest.mark.parametrize(("text", "said"), [
    ("", "'' is not of the form"), ("numpy,", "is not of the form"), ("0*numpy", "asks for no kernel"),
    ("numpy/0.5", "faster than it is"), ("nope", "there is no kernel 'nope'; give numpy"),
    ("fpga-dmo", "did you mean 'fpga-demo'"), ("golden:", "there is no kernel ''"),
    ("serial:fpga-demo", "serial:PRESET:PORT"), ("serial:nope:/dev/x", "there is no kernel 'nope'"),
    ("9999*numpy", "more than 1024"), ("2*serial:fpga-demo:/dev/x", "name a port twice"),
    ("-1*numpy", "there is no kernel '-1*numpy'")])
def test_texts_that_name_none_are_refused_in_a_line(text: str, said: str) -> None:
    with pytest.raises(UserError) as error:
        kernel_devices(text)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_a_kernel_that_is_too_small_is_named() -> None:
    (device,) = kernel_devices("golden:fpga-tiny")
    with pytest.raises(UserError, match=r"kernel golden:fpga-tiny: the network needs \d+ bytes of die memory"):
        device_step(device, perceptron("wide", (12, 4096, 64, 4)), batch=8, rule=device.rule("adagrad", None, None),
                    memory_mib=1)


def test_rules_are_wide_on_dies_of_fixed_point() -> None:
    die, host = kernel_devices("golden:fpga-tiny,numpy")
    assert die.rule("adagrad", 0.02, None).wide and not host.rule("adagrad", 0.02, None).wide
    step = device_step(die, network(), batch=8, rule=die.rule("adagrad", 0.02, None), memory_mib=1)
    assert all(WEIGHTS_LOW in vectors for vectors in step.view.kept.values())
    with pytest.raises(UserError, match="kernel numpy: rate must be above 0"):
        host.rule("adagrad", -1.0, None)
