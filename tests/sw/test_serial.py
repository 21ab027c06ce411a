"""Dies behind serial lines: on lines that fail all words are right, on ports that cannot be used one line says why."""

import os
import pty
import select
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.graphs import random_program
from tests.support.serial_bench import ACCESSES, MEMORY_WORDS, Noise, NoisyPort, window_array

from plinth.cli import main
from plinth.driver import line
from plinth.driver.driver import DieError, Driver
from plinth.driver.line import LineError, Request, SerialLine
from plinth.driver.serial import SerialArray, SerialDevice, SystemPort
from plinth_hw.board.manifest import Manifest
from plinth_hw.isa import layout
from plinth_hw.isa.frames import AnswerTrailer, BridgeParameters, Limits, RequestHeader, RequestKind, decode, encode
from plinth_hw.isa.identity import identity
from plinth_hw.isa.parameters import DieParameters, preset
from plinth_hw.isa.registers import IDENTITY, ISA_VERSION, ControlBits, Register, Status
from plinth_sim.rtl.pseudo_terminal import PseudoTerminals

BRIDGE = BridgeParameters(cycles_per_bit=4)
DIE = preset("ndp-tiny", window=True)
#: A wrong byte in so many, of each kind.
NOISES = {"calm": 0.0, "noisy": 2e-4, "bad": 4e-4}


def _noise(seed: int, wrong: float) -> Noise:
    return Noise(seed, lose=wrong, flip=wrong, insert=wrong, double=wrong)


def _tried(port: NoisyPort, device: SerialDevice, what: str, *values: Any
           ) -> tuple[SerialDevice, Any]:
    """What comes of it, tried anew on the same line after each clear error; and the device that it came from."""
    for _ in range(100):
        try:
            return device, getattr(device, what)(*values)
        except LineError as error:
            assert "no answer to the" in str(error)
        while True:
            try:
                device = SerialDevice(SerialLine(port), DIE)
                break
            except LineError as error:
                assert "nothing answers" in str(error) or "is no Plinth host bridge" in str(error)
    raise AssertionError("nothing comes through")


def campaign(seed: int, wrong: float, transfers: int) -> int:
    """Random transfers over a line that fails, against a model; returns how many requests were sent again."""
    rng = np.random.default_rng(seed)
    with window_array(BRIDGE) as array:
        port = NoisyPort(array, there=_noise(2 * seed, wrong), back=_noise(2 * seed + 1, wrong))
        device = first = SerialDevice(SerialLine(port), DIE)
        model = np.zeros(MEMORY_WORDS, np.uint32)
        device, accesses = _tried(port, device, "read_register", ACCESSES)
        for _ in range(transfers):
            count = int(rng.integers(1, 10) if rng.random() < 0.5 else rng.integers(1, 400))
            start = int(rng.integers(MEMORY_WORDS - count + 1))
            before = device
            if rng.random() < 0.5:
                values = np.where(rng.random(count) < rng.random(), 0, rng.integers(0, 1 << 32, count, np.uint32))
                device, _ = _tried(port, device, "write_memory", start, values)
                model[start:start + count] = values
            else:
                device, words = _tried(port, device, "read_memory", start, count)
                assert np.array_equal(words, model[start:start + count])
            device, total = _tried(port, device, "read_register", ACCESSES)
            # Each word was accessed once, unless the transfer was tried anew.
            assert total - accesses == count or (device is not before and total - accesses >= count)
            accesses = total
        device, words = _tried(port, device, "read_memory", 0, MEMORY_WORDS)
        assert np.array_equal(words, model)
        return device.line.sent_again if device is first else first.line.sent_again + 1


@pytest.mark.parametrize("wrong", NOISES.values(), ids=NOISES)
def test_words_are_right_on_a_line_that_fails(wrong: float) -> None:
    """Bytes lost, flipped, inserted, doubled, both ways."""
    again = campaign(1, wrong, 8)
    assert (again > 0) == (wrong > 0)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8))
def test_long_campaign(seed: int) -> None:
    for wrong, transfers in ((2e-5, 200), (2e-4, 100), (8e-4, 20)):
        campaign(100 + seed, wrong, transfers)


def test_numbers_of_requests_come_again() -> None:
    with window_array(BRIDGE) as array:
        bridge = SerialLine(NoisyPort(array))
        answers = bridge.exchange([Request(RequestKind.READ, Register.ID, count=1)] * 600)
        assert answers == [IDENTITY.to_bytes(4, "little")] * 600


def test_a_line_of_nothing_but_noise_ends() -> None:
    with window_array(BRIDGE) as array:
        port = NoisyPort(array, there=Noise(1, flip=1.0), cycles_per_second=4000)
        with pytest.raises(LineError, match="die 0: nothing answers at"):
            SerialLine(port)
        port = NoisyPort(array, cycles_per_second=4000)
        open_line = SerialLine(port)
        port.there = Noise(1, flip=1.0)
        with pytest.raises(LineError, match=r"no answer to the read of register 0x0 after \d tries; the line was cut"):
            open_line.exchange([Request(RequestKind.READ, 0, count=1)])


def test_an_access_that_fails_is_told() -> None:
    with window_array(BRIDGE) as array:
        device = SerialDevice(SerialLine(NoisyPort(array)), DIE)
        with pytest.raises(LineError, match="the write of register 0x84 was answered with SLVERR after 9 words"):
            device.write_memory(MEMORY_WORDS - 10, np.ones(20, np.uint32))
        with pytest.raises(LineError, match="the read of register 0x44 was answered with SLVERR after 0 words"):
            device.read_register(0x44)
        assert device.read_register(Register.ID) == IDENTITY


@contextmanager
def _terminals() -> Iterator[PseudoTerminals]:
    """The bridge before a window, served by a thread of its own."""
    with window_array(BRIDGE) as array, PseudoTerminals(array) as terminals:
        ended = threading.Event()
        thread = threading.Thread(target=terminals.serve, args=(ended.is_set, 0.02))
        thread.start()
        try:
            yield terminals
        finally:
            ended.set()
            thread.join()


def test_a_pseudo_terminal_is_a_port() -> None:
    """Programs may come and go, one at a time; a line that is cut is told."""
    words = np.random.default_rng(2).integers(0, 1 << 32, 700, np.uint32)
    with _terminals() as terminals:
        array = SerialArray(DIE, [SystemPort(terminals.names[0])])
        with pytest.raises(LineError, match=f"{terminals.names[0]}: is busy; end the program that uses it"):
            SystemPort(terminals.names[0])
        (device,) = array.dies
        device.write_memory(3, words)
        array.close()
        array = SerialArray(DIE, [SystemPort(terminals.names[0])])
        (device,) = array.dies
        assert np.array_equal(device.read_memory(3, 700), words)
        assert (array.size, list(array.numbers)) == (1, [0])
    with pytest.raises(LineError, match="the line is cut"):
        device.read_memory(3, 700)
    array.close()


@pytest.mark.parametrize(("name", "message"), [
    ("/dev/tty-of-nobody", "/dev/tty-of-nobody: does not exist; connect the board, or name another port"),
    ("/dev/null", "/dev/null: cannot be used as a serial port")])
def test_ports_that_cannot_be_used(name: str, message: str) -> None:
    with pytest.raises(LineError, match=message):
        SystemPort(name)


@contextmanager
def _port_of(answer: Callable[[bytes], bytes]) -> Iterator[str]:
    """Name of a port at whose other end ``answer`` says what comes of bytes, until it raises EOFError: then the line is
    cut."""
    own, theirs = pty.openpty()
    tty.setraw(theirs)
    ended = threading.Event()

    def serve() -> None:
        with suppress(EOFError):
            while not ended.is_set():
                if select.select([own], [], [], 0.02)[0]:
                    os.write(own, answer(os.read(own, 4096)))
        os.close(own)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield os.ttyname(theirs)
    finally:
        ended.set()
        thread.join()
        os.close(theirs)


@contextmanager
def _answering(answer: Callable[[bytes], bytes]) -> Iterator[SystemPort]:
    """The port itself."""
    with _port_of(answer) as name:
        port = SystemPort(name)
        try:
            yield port
        finally:
            port.close()


class Registers:
    """A bridge in a few lines, before registers that hold what they are given, of a die that is done as soon as it is
    started; after ``requests`` it is gone."""

    def __init__(self, values: dict[int, int], requests: int = 1 << 30, version: int = 1) -> None:
        self.values, self.left, self.version = values, requests, version
        self.rest = b""

    def __call__(self, came: bytes) -> bytes:
        *lines, self.rest = (self.rest + came).split(b"\0")
        return b"".join(encode(self.answer(words)) for line in lines if (words := decode(line)) is not None)

    def answer(self, words: bytes) -> bytes:
        self.left -= 1
        if self.left < 0:
            raise EOFError
        first, address, *data = np.frombuffer(words, "<u4").tolist()
        header = layout.unpack(RequestHeader, [first])
        payload, count = [], header.count or len(data)
        if header.operation is RequestKind.SYNC:
            payload, count = list(layout.pack(Limits, {"words": 8, "slots": 2, "version": self.version})), address
        for place in range(count if header.operation is not RequestKind.SYNC else 0):
            register = address + (0 if header.fixed else 4 * place)
            if header.operation is RequestKind.READ:
                payload.append(self.values.get(register, 0))
            else:
                self.values[register] = data[place]
                if register == Register.CONTROL and data[place] & ControlBits.START:
                    self.values[Register.STATUS] = Status.DONE
        trailer = layout.pack(AnswerTrailer, {"sequence": header.sequence, "count": count})
        return np.array([*payload, *trailer], "<u4").tobytes()


def test_a_silent_port(monkeypatch) -> None:
    monkeypatch.setattr(line, "SILENCE", 0.03)
    with _answering(lambda came: b"") as port, pytest.raises(LineError, match="nothing answers at 3,000,000 baud"):
        SerialLine(port)


def test_a_port_that_talks_of_other_things(monkeypatch) -> None:
    monkeypatch.setattr(line, "SILENCE", 0.03)
    with _answering(lambda came: b"login: \0" * 300) as port, \
            pytest.raises(LineError, match="what answers is no Plinth host bridge"):
        SerialLine(port)


def test_a_bridge_of_another_version() -> None:
    with _answering(Registers({}, version=9)) as port, \
            pytest.raises(LineError, match="speaks version 9 of the protocol, not 1; load a bitstream"):
        SerialLine(port)


def test_a_line_that_is_cut_amid_requests() -> None:
    with _answering(Registers({0: IDENTITY}, requests=3)) as port:
        device = SerialDevice(SerialLine(port), DIE)
        assert device.read_register(0) == IDENTITY
        with pytest.raises(LineError, match="the line is cut"):
            device.write_memory(0, np.ones(100, np.uint32))


def test_a_die_of_another_identity() -> None:
    """The driver is told by registers, whatever line they come over."""
    program, _ = random_program(DIE, 1, 1, 1, 4096)
    values = {int(register): value for register, value in identity(preset("ndp-demo", window=True)).items()}
    with _answering(Registers({Register.ID: IDENTITY, Register.VERSION: ISA_VERSION, **values})) as port, \
            pytest.raises(DieError, match=r"die 0 is a systolic FP32 die of 8 x 8 .* plan is for a .* die of 4 x 4"):
        Driver(SerialArray(DIE, [port]), program, memory_words=4096)
    with _answering(Registers({})) as port, pytest.raises(DieError, match="die 0: identity 0x0 version 0 is not a"):
        Driver(SerialArray(DIE, [port]), program, memory_words=4096)


def _die_of(verilog_digest: int) -> Registers:
    """What the driver sees of :data:`DIE`, which has not run, until it looks at results."""
    return Registers({Register.ID: IDENTITY, Register.VERSION: ISA_VERSION, Register.STATUS: 0,
                      **{int(register): value for register, value in identity(DIE, verilog_digest).items()}})


def test_a_die_of_other_verilog() -> None:
    program, _ = random_program(DIE, 1, 1, 1, 4096)
    with _answering(_die_of(7)) as port:
        Driver(SerialArray(DIE, [port]), program, memory_words=4096, verilog_digest=7)
    with _answering(_die_of(7)) as port, \
            pytest.raises(DieError, match="die 0 was made of Verilog 00000007, the bitstream of 00000008; load that"):
        Driver(SerialArray(DIE, [port]), program, memory_words=4096, verilog_digest=8)


def _bitstream(folder: Path, of: DieParameters, verilog_digest: int) -> Path:
    bitstream = folder / "plinth.bit"
    bitstream.write_bytes(b"bits")
    Manifest.of(bitstream, "ulx3s-85f", of, verilog_digest, 80e6, 3_000_000, 1).write(folder)
    return bitstream


@pytest.mark.parametrize(("what", "message"), [
    ("preset", "is of preset ndp-demo (parameters "), ("bits", "is not the bitstream that manifest.json beside it"),
    ("none", "plinth.bit: No such file or directory"), ("manifest", "manifest.json: No such file or directory"),
    ("verilog", "die 0 was made of Verilog 00000007, the bitstream of 00000008")])
def test_a_bitstream_of_something_else(what: str, message: str, capsys, tmp_path) -> None:
    """All but the last are told before the port is opened."""
    bitstream = _bitstream(tmp_path, preset("ndp-demo", window=True) if what == "preset" else DIE, 8)
    if what == "bits":
        bitstream.write_bytes(b"bots")
    elif what == "none":
        bitstream.unlink()
    elif what == "manifest":
        (tmp_path / "manifest.json").unlink()
    with _port_of(_die_of(7)) as name, pytest.raises(SystemExit) as end:
        main(["train", "--machine", "ndp-tiny", "--dies", "1", "--bitstream", str(tmp_path), "--out", str(tmp_path),
              "--device", f"serial:{name if what == 'verilog' else '/dev/tty-of-nobody'}"])
    error = capsys.readouterr().err
    assert end.value.code == 2
    assert error.startswith("plinth: error: ") and message in error and error.count("\n") == 1


def test_a_bitstream_is_of_dies_behind_lines(capsys, tmp_path) -> None:
    with pytest.raises(SystemExit) as end:
        main(["train", "--bitstream", str(tmp_path)])
    assert end.value.code == 2
    assert "--bitstream is what dies behind serial:PORT hold, not those of --device cosim" in capsys.readouterr().err


@pytest.mark.parametrize(("devices", "message"), [
    (["serial"], "--device 'serial' is none of cosim, golden, numpy and serial:PORT"),
    (["cosim", "serial:/dev/ttyX"], "--device 'cosim': of several, each must be serial:PORT"),
    (["serial:/dev/ttyX", "serial:/dev/ttyX@115200"], "--device names a port twice"),
    (["serial:/dev/ttyX@0"], "is none of cosim, golden, numpy and serial:PORT"),
    (["serial:/dev/tty-of-nobody"], "/dev/tty-of-nobody: does not exist; connect the board, or name another port")])
def test_devices_of_the_command_line(devices: list[str], message: str, capsys, tmp_path) -> None:
    with pytest.raises(SystemExit) as end:
        main(["train", "--steps", "1", "--out", str(tmp_path), *(f"--device={device}" for device in devices)])
    assert end.value.code == 2
    assert message in capsys.readouterr().err


def test_as_many_ports_as_dies(capsys) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--dies", "4", "--device", "serial:/dev/ttyX"])
    assert "the array has 4 dies, but 1 --device serial:PORT; give one for each" in capsys.readouterr().err
