"""A cocotb testbench as an array of devices: the same driver code as on the compiled co-simulation.

The driver blocks, so it runs in a thread of its own (``cocotb.task.bridge``) and every access is resumed in
the simulation::

    @cocotb.test(timeout_time=10, timeout_unit="ms")
    async def trains(dut):
        array = await CocotbArray.start(dut, parameters, dies=2, memory_words=1 << 16)
        await bridge(lambda: Driver(array, program, ...))()

The design under test has the ports of a die, or, with several dies, each die's ports behind the prefix
``die_0__``, ``die_1__`` ... (:func:`array_wrapper` makes such a top).
"""

import functools
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from cocotb.clock import Clock
from cocotb.task import resume
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiRam, AxiResp

from plinth_hw.isa.formats import as_words, word_type
from plinth_hw.isa.parameters import RESET_CYCLES, DieParameters
from plinth_hw.isa.registers import Register, Status
from plinth_hw.isa.window import WindowMemory
from plinth_sim.rtl.cosim import CosimError
from plinth_sim.rtl.pins import module_ports

Words = npt.NDArray[np.unsignedinteger]

#: Cycles between looks at the interrupts.
_LOOK_CYCLES = 16
#: Cycles that the other dies get after one has stopped with an error.
_SETTLE_CYCLES = 256


class CocotbDevice:
    """One die; methods block and must be called from a bridged thread."""

    def __init__(self, dut: Any, prefix: str, parameters: DieParameters, memory_words: int):
        slice_words = parameters.beat_words // max(1, parameters.axi_ports)
        beats = memory_words // parameters.beat_words
        self._window = WindowMemory(parameters, self._read_registers, self._write_registers) if (
            parameters.block_ram_words) else None
        self._chip_words = parameters.block_ram_words
        self._word = word_type(parameters.memory_format)
        self.irq = getattr(dut, f"{prefix}irq")
        self._registers = AxiLiteMaster(AxiLiteBus.from_prefix(dut, f"{prefix}axil", bus_separator="_"),
                                        dut.clk, dut.rst)
        self._rams = [AxiRam(AxiBus.from_prefix(dut, f"{prefix}axi_{port}", bus_separator="_"), dut.clk,
                             dut.rst, mem=bytearray(max(4096, self._word.itemsize * slice_words * beats)))
                      for port in range(parameters.axi_ports)]
        for interface in (self._registers, *self._rams):  # they tell of every burst otherwise
            interface.write_if.log.setLevel(logging.WARNING)
            interface.read_if.log.setLevel(logging.WARNING)
        # slices[p][b]: the words of beat b that are behind port p
        words = slice_words * beats
        self._slices = [np.frombuffer(ram.mem, dtype=self._word)[:words].reshape(beats, slice_words)
                        for ram in self._rams]
        self._memory_words = beats * parameters.beat_words
        self._slice_words = slice_words

    def stall(self, probability: float, rng: np.random.Generator) -> None:
        """Hold back valid or ready on each channel of every port in a cycle with a probability."""
        def pauses() -> Iterator[bool]:
            while True:
                yield bool(rng.random() < probability)

        for interface in (self._registers, *self._rams):
            write, read = interface.write_if, interface.read_if
            for channel in (write.aw_channel, write.w_channel, write.b_channel, read.ar_channel,
                            read.r_channel):
                channel.set_pause_generator(pauses())

    def refuse(self, reads: Collection[int], writes: Collection[int], answer: AxiResp = AxiResp.SLVERR) -> None:
        """Answer reads, and from then on writes, of these beats (word address over ``beat_words``) with an error."""
        for ram in self._rams:
            for interface, name, channel, beats in ((ram.read_if, "_read", ram.read_if.r_channel, reads),
                                                    (ram.write_if, "_write", ram.write_if.b_channel, writes)):
                interface.log.setLevel(logging.ERROR)
                setattr(interface, name, self._refusing(interface, name, beats))
                channel.send = _answering(channel, answer)

    def disturb(self, channel: str, after: int, change: Callable[[Any], Sequence[Any] | None]) -> None:
        """Send what ``change`` makes of a transfer of the first port's ``"r"`` or ``"b"`` instead of it: of the first
        one behind ``after`` others of which it makes anything."""
        ram = self._rams[0]
        stream = ram.read_if.r_channel if channel == "r" else ram.write_if.b_channel
        left = after

        async def send(transfer: Any) -> None:
            nonlocal left
            left -= 1
            made = change(transfer) if left < 0 else None
            if made is not None:
                stream.send = functools.partial(type(stream).send, stream)
            for each in [transfer] if made is None else made:
                await type(stream).send(stream, each)

        stream.send = send

    def _refusing(self, interface: Any, name: str, beats: Collection[int]) -> Any:
        """An access of a memory, which is made and then fails for these beats."""
        access = getattr(type(interface), name)

        async def tried(address: int, what: Any) -> Any:
            answer = await access(interface, address, what)
            if address // (self._word.itemsize * self._slice_words) in beats:
                raise ValueError(f"{name} of {address:#x}")
            return answer

        return tried

    def _places(self, address: int, count: int) -> tuple[npt.NDArray[np.int64], ...]:
        """Port, beat and place in the slice of each word."""
        if address < 0 or count < 0 or address + count > self._memory_words:
            raise ValueError(f"words {address} to {address + count} are outside the memory of "
                             f"{self._memory_words} words")
        index = np.arange(address, address + count)
        slices, place = np.divmod(index, self._slice_words)
        beat, port = np.divmod(slices, max(1, len(self._slices)))
        return port, beat, place

    def read_memory(self, address: int, count: int) -> Words:
        """``count`` words from word address ``address``; a copy. Words on the chip, which come first, are read by
        registers."""
        port, beat, place = self._places(address, count)
        if self._window and count and address < self._chip_words:
            chip = min(count, self._chip_words - address)
            return np.concatenate([self._window.read(address, chip), self.read_memory(address + chip, count - chip)])
        result = np.zeros(count, dtype=self._word)
        for number, words in enumerate(self._slices):
            mine = port == number
            result[mine] = words[beat[mine], place[mine]]
        return result

    def write_memory(self, address: int, words: Words) -> None:
        """Store words at word address ``address``; what is wider than a word as its words, low one first."""
        flat = as_words(words, self._word)
        port, beat, place = self._places(address, flat.size)
        if self._window and flat.size and address < self._chip_words:
            chip = min(flat.size, self._chip_words - address)
            self._window.write(address, flat[:chip])
            self.write_memory(address + chip, flat[chip:])
            return
        for number, target in enumerate(self._slices):
            mine = port == number
            target[beat[mine], place[mine]] = flat[mine]

    def read_register(self, address: int) -> int:
        """Value of the register at a byte address."""
        return int(resume(self.register)(address))

    def write_register(self, address: int, value: int) -> None:
        """Write the register at a byte address."""
        resume(self._write)(address, value)

    def _read_registers(self, addresses: Sequence[int]) -> list[int]:
        return [self.read_register(address) for address in addresses]

    def _write_registers(self, writes: Sequence[tuple[int, int]]) -> None:
        for address, value in writes:
            self.write_register(address, value)

    async def register(self, address: int) -> int:
        """Read a register from a coroutine."""
        answer = await self._registers.read(address, 4)
        if answer.resp != AxiResp.OKAY:
            raise CosimError(f"the access of register {address:#x} was answered with {answer.resp!r}")
        return int.from_bytes(bytes(answer.data), "little")

    async def _write(self, address: int, value: int) -> None:
        answer = await self._registers.write(address, (value & 0xFFFFFFFF).to_bytes(4, "little"))
        if answer.resp != AxiResp.OKAY:
            raise CosimError(f"the access of register {address:#x} was answered with {answer.resp!r}")


def _answering(channel: Any, answer: AxiResp) -> Any:
    """``send`` of a channel of answers, whose errors are ``answer``."""
    async def send(transfer: Any) -> None:
        for name in ("rresp", "bresp"):
            if getattr(transfer, name, AxiResp.OKAY) == AxiResp.SLVERR:
                setattr(transfer, name, answer)
        await type(channel).send(channel, transfer)

    return send


class CocotbArray:
    """Dies of a cocotb testbench. Make it with :meth:`start`."""

    def __init__(self, dut: Any, devices: Sequence[CocotbDevice]):
        self._dut = dut
        self._devices = list(devices)

    @classmethod
    async def start(cls, dut: Any, parameters: DieParameters, *, dies: int,
                    memory_words: int) -> "CocotbArray":
        """Start the clock, reset the design and attach memories and register masters."""
        prefixes = [f"die_{die}_" for die in range(dies)] if hasattr(dut, "die_0_irq") else [""]
        if len(prefixes) != dies:
            raise ValueError(f"the design under test has {len(prefixes)} die, not {dies}")
        dut.rst.value = 1
        devices = [CocotbDevice(dut, prefix, parameters, memory_words) for prefix in prefixes]
        Clock(dut.clk, 10, unit="ns").start()
        await ClockCycles(dut.clk, RESET_CYCLES)
        dut.rst.value = 0
        await RisingEdge(dut.clk)
        return cls(dut, devices)

    @property
    def size(self) -> int:
        """Number of dies."""
        return len(self._devices)

    @property
    def numbers(self) -> Sequence[int]:
        """Numbers of the dies, which are all here."""
        return range(len(self._devices))

    @property
    def in_step(self) -> bool:
        """All dies run in one time, which stands still between calls."""
        return True

    def meet(self, told: Any = None) -> list[Any]:
        """There are no other processes to meet."""
        return [told]

    @property
    def dies(self) -> Sequence[CocotbDevice]:
        """The dies, in order of their numbers."""
        return self._devices

    def stall(self, probability: float, seed: int) -> None:
        """Hold back valid or ready on every AXI channel in a cycle with a probability."""
        for number, device in enumerate(self._devices):
            device.stall(probability, np.random.default_rng([seed, number]))

    def wait(self, limit_cycles: int, dies: Iterable[int] | None = None) -> int:
        """Run until every die (or each of ``dies``) raises its interrupt, or one reports an error, or
        ``limit_cycles`` have passed; returns the cycles run."""
        return int(resume(self._wait)(limit_cycles, set(self.numbers if dies is None else dies)))

    async def _wait(self, limit_cycles: int, watched: set[int]) -> int:
        cycles, errors_at = 0, None
        ended: set[int] = set()
        while cycles < limit_cycles and not watched <= ended:
            step = min(_LOOK_CYCLES, limit_cycles - cycles)
            await ClockCycles(self._dut.clk, step)
            cycles += step
            for number, device in enumerate(self._devices):
                if number not in ended and device.irq.value:
                    ended.add(number)
                    if await device.register(Register.STATUS) & Status.ERROR:
                        errors_at = cycles if errors_at is None else errors_at
            if errors_at is not None and cycles >= errors_at + _SETTLE_CYCLES:
                break
        return cycles


def array_wrapper(verilog: str, top: str, dies: int, links: Sequence[tuple[int, int, int, int]],
                  latency: int) -> str:
    """Verilog of module ``array``: ``dies`` instances of ``top``, joined by links of ``latency`` registers.

    Every port of die d but clock, reset and links is a port ``die_d_<port>``; link inputs without a
    link are zero.
    """
    ports = module_ports(verilog, top)
    outer, inside = ["input clk", "input rst"], []
    driven: dict[tuple[int, str], str] = {}
    for index, (from_die, from_port, to_die, to_port) in enumerate(links):
        sender, receiver = (from_die, f"link_out_{from_port}_"), (to_die, f"link_in_{to_port}_")
        for pin, (from_side, from_prefix), (to_side, to_prefix) in (
                ("valid", sender, receiver), ("flit", sender, receiver), ("credit", receiver, sender)):
            source, sink = (from_side, from_prefix + pin), (to_side, to_prefix + pin)
            bits = ports[source[1]][1]
            pipe = f"link_{index}_{pin}"
            inside += [f"reg [{bits - 1}:0] {pipe} [0:{latency - 1}];",
                       "always @(posedge clk) begin",
                       f"  {pipe}[0] <= rst ? 0 : die_{source[0]}_{source[1]};",
                       *(f"  {pipe}[{stage}] <= rst ? 0 : {pipe}[{stage - 1}];"
                         for stage in range(1, latency)),
                       "end"]
            driven[sink] = f"{pipe}[{latency - 1}]"
    instances = []
    for die in range(dies):
        pins = [".clk(clk)", ".rst(rst)"]
        for name, (direction, bits) in ports.items():
            wire = f"die_{die}_{name}"
            if name in ("clk", "rst"):
                continue
            if name.startswith("link_"):
                inside.insert(0, f"wire [{bits - 1}:0] {wire};")
                if direction == "input":
                    instances.append(f"assign {wire} = {driven.get((die, name), '0')};")
            else:
                outer.append(f"{direction} [{bits - 1}:0] {wire}" if bits > 1 else f"{direction} {wire}")
            pins.append(f".{name}({wire})")
        instances.append(f"{top} die_{die} ({', '.join(pins)});")
    return "\n".join([f"module array ({', '.join(outer)});", *inside, *instances, "endmodule", ""])
