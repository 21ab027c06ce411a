"""The internal memory ports as one or more AXI4 masters.

Every beat is cut into P = ``axi_ports`` equal slices; slice p goes over port p at byte address
``beat address * slice bytes``. All ports therefore run the same bursts, each at its own pace::

    read.request -> split at 4 KB -> AR of each port;  R of all ports -> join -> read.data
    write.request -> split at 4 KB -> AW of each port, FIFO of burst lengths
    write.data -> reg -> W of each port (wlast by the FIFO)
    B of all ports -> join -> FIFO of last bursts -> write.response

Bursts are INCR, full width, one ID, at most 64 beats, and never cross a 4 KB boundary of a port. As AXI4 asks of a
master (A3.3.1), no VALID waits for a READY: W goes as soon as its AW is offered, whether or not it is taken, so that
a slave may wait for either before it takes the other (behind a register slice that has no place for that AW, W comes
first). READY of R and B waits for the VALID of all ports, which a slave
must not make wait for it. Bytes without a strobe are 0. Latency: a request appears on AR or AW one cycle after it is
taken, data on W as well; data and responses pass in no time. Throughput: one beat a cycle each way. Reads in flight are
limited by the memory alone, writes by ``outstanding`` bursts.

Nothing here stands between the ports' READY and VALID but logic: in front of pins each channel has a register slice
(:func:`connect_pins`).
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2, exact_log2

from plinth_hw.arith.carry import Digits, loaded_sum, table_sum
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.channels import slice_channels
from plinth_hw.lib.fifo import FIFO
from plinth_hw.memory.port import MAX_BEATS, ReadPort, WritePort, request_layout

#: An AXI4 burst stays within a page of this many bytes.
PAGE_BYTES = 4096
#: AxBURST: incrementing.
BURST_INCR = 1
#: AxCACHE: normal memory, non-cacheable, bufferable.
CACHE_BUFFERABLE = 3


#: Fields of each channel that pass through register slices, and those of the address channels that are constant.
_SLICED_FIELDS = {"aw": ("addr", "len"), "w": ("data", "strb", "last"), "b": ("id", "resp"), "ar": ("addr", "len"),
                  "r": ("id", "data", "resp", "last")}
_CONSTANT_FIELDS = ("id", "size", "burst", "cache", "prot")


class AXI4Signature(wiring.Signature):
    """AXI4 seen from the master, with the specification's names; members left out are those that an
    interconnect ties off (lock, qos, region, user).

    Parameters
    ----------
    address_bits, data_bits, id_bits : int
    """

    def __init__(self, address_bits: int, data_bits: int, id_bits: int = 1):
        members: dict[str, wiring.Member] = {}
        for channel in ("aw", "ar"):
            members |= {
                f"{channel}id": Out(id_bits), f"{channel}addr": Out(address_bits),
                f"{channel}len": Out(8), f"{channel}size": Out(3), f"{channel}burst": Out(2),
                f"{channel}cache": Out(4), f"{channel}prot": Out(3),
                f"{channel}valid": Out(1), f"{channel}ready": In(1),
            }
        super().__init__({
            **members,
            "wdata": Out(data_bits), "wstrb": Out(data_bits // 8), "wlast": Out(1),
            "wvalid": Out(1), "wready": In(1),
            "bid": In(id_bits), "bresp": In(2), "bvalid": In(1), "bready": Out(1),
            "rid": In(id_bits), "rdata": In(data_bits), "rresp": In(2), "rlast": In(1),
            "rvalid": In(1), "rready": Out(1),
        })


def axi_signature(parameters: DieParameters) -> AXI4Signature:
    """Signature of each AXI4 port of a die."""
    slice_log2 = ceil_log2(parameters.beat_bits // 8 // parameters.axi_ports)
    beat_log2 = exact_log2(parameters.beat_words)
    return AXI4Signature(parameters.address_bits - beat_log2 + slice_log2,
                         parameters.beat_bits // parameters.axi_ports)


def connect_pins(m: Module, name: str, master: Any, pins: Any) -> None:
    """Connect a port of :class:`AXIAdaptor` to pins by register slices; what is constant is tied."""
    slice_channels(m, name, master, pins, _SLICED_FIELDS)
    m.d.comb += [getattr(pins, channel + field).eq(getattr(master, channel + field))
                 for channel in ("aw", "ar") for field in _CONSTANT_FIELDS]


class AXIAdaptor(wiring.Component):
    """Memory side of the crossbar to AXI4.

    Parameters
    ----------
    parameters : DieParameters
    outstanding : int
        Write bursts a port that may wait for their response.

    Members
    -------
    read : In(ReadPort)
    write : In(WritePort)
    axi_0, axi_1, ... : Out :class:`AXI4Signature`
    read_idle : In(1)
        No beat is awaited: all requests of ``read`` have had theirs.
    read_error : Out(1)
        Beside a beat on ``read.data``: a slice of it came with SLVERR or DECERR, or with an ID that no request had.
    read_not_last : Out(1)
        Beside a beat on ``read.data``: a slice of it came without RLAST, which the last beat of a request has.
    write_error : Out(1)
        A burst of the oldest request of ``write`` that is not answered was, in this cycle, answered SLVERR or DECERR,
        or with an ID that no request had.
    read_stray, write_stray : Out(1)
        A port has a beat, or a response, while none is awaited; it is thrown away in this cycle.

    Data and responses that are awaited pass on, errors or not.
    """

    def __init__(self, parameters: DieParameters, outstanding: int = 32):
        self.parameters = parameters
        self.outstanding = outstanding
        super().__init__({
            "read": In(ReadPort(parameters)), "write": In(WritePort(parameters)),
            "read_idle": In(1), "read_error": Out(1), "read_not_last": Out(1), "write_error": Out(1),
            "read_stray": Out(1), "write_stray": Out(1),
            **{f"axi_{port}": Out(axi_signature(parameters)) for port in range(parameters.axi_ports)},
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        ports = [getattr(self, f"axi_{port}") for port in range(self.parameters.axi_ports)]
        slice_bits = len(ports[0].wdata)
        slice_log2 = ceil_log2(slice_bits // 8)

        for channel, client in (("ar", self.read), ("aw", self.write)):
            m.submodules[f"{channel}_split"] = split = _PageSplit(self.parameters, len(ports))
            wiring.connect(m, wiring.flipped(client.request), split.i)
            for index, port in enumerate(ports):
                m.d.comb += [
                    getattr(port, f"{channel}addr").eq(split.address << slice_log2),
                    getattr(port, f"{channel}len").eq(split.length),
                    getattr(port, f"{channel}size").eq(slice_log2),
                    getattr(port, f"{channel}burst").eq(BURST_INCR),
                    getattr(port, f"{channel}cache").eq(CACHE_BUFFERABLE),
                    getattr(port, f"{channel}valid").eq(split.valid[index]),
                    split.ready[index].eq(getattr(port, f"{channel}ready")),
                ]
            if channel == "aw":
                self._write(m, ports, split)
            else:
                m.d.comb += split.permit.eq(1)
                self._read(m, ports)
        return m

    def _read(self, m: Module, ports: list) -> None:
        """All ports' R to one beat."""
        step, offered = Signal(), Cat(port.rvalid for port in ports)
        m.d.comb += [
            self.read.data.payload.eq(Cat(port.rdata for port in ports)),
            self.read.data.valid.eq(offered.all() & ~self.read_idle),
            self.read_stray.eq(offered.any() & self.read_idle),
            step.eq(self.read.data.valid & self.read.data.ready),
            self.read_error.eq(self.read.data.valid & Cat((port.rresp[1], port.rid) for port in ports).any()),
            self.read_not_last.eq(~Cat(port.rlast for port in ports).all()),
            *(port.rready.eq(step | self.read_idle) for port in ports),
        ]

    def _write(self, m: Module, ports: list, split: "_PageSplit") -> None:
        """Beats to W of each port, and B of all ports to responses."""
        count = len(ports)
        m.submodules.lengths = lengths = FIFO(split.length.shape(), self.outstanding)
        m.submodules.lasts = lasts = FIFO(1, self.outstanding)
        m.d.comb += [
            split.permit.eq(lengths.i.ready & lasts.i.ready),
            lengths.i.payload.eq(split.length), lengths.i.valid.eq(split.offer),
            lasts.i.payload.eq(split.last), lasts.i.valid.eq(split.offer),
        ]

        held, beat = Signal.like(self.write.data.payload), self.write.data.payload
        word_bits = self.parameters.word_bits
        held_last = Signal()
        pending = Signal(count)
        taken = Signal.like(split.length)
        step = Signal()
        last = Signal()
        m.d.comb += [
            last.eq(taken == lengths.o.payload),
            self.write.data.ready.eq(
                lengths.o.valid & ~(pending & ~Cat(port.wready for port in ports)).any()),
            step.eq(self.write.data.valid & self.write.data.ready),
            lengths.o.ready.eq(step & last),
        ]
        m.d.sync += pending.eq(pending & ~Cat(port.wready for port in ports))
        with m.If(step):
            m.d.sync += [held.strobe.eq(beat.strobe), held.data.eq(beat.data.as_value() & Cat(
                bit.replicate(word_bits) for bit in beat.strobe)), held_last.eq(last),
                         pending.eq((1 << count) - 1), taken.eq(Mux(last, 0, taken + 1))]
        words, word_bytes = self.parameters.beat_words // count, word_bits // 8
        for index, port in enumerate(ports):
            m.d.comb += [
                port.wdata.eq(held.data.as_value().word_select(index, len(port.wdata))),
                port.wstrb.eq(Cat(bit.replicate(word_bytes) for bit in held.strobe.word_select(index, words))),
                port.wlast.eq(held_last),
                port.wvalid.eq(pending[index]),
            ]

        answered, given = Signal(), Cat(port.bvalid for port in ports)
        m.d.comb += [
            answered.eq(given.all() & lasts.o.valid),
            lasts.o.ready.eq(answered),
            self.write.response.eq(answered & lasts.o.payload),
            self.write_error.eq(answered & Cat((port.bresp[1], port.bid) for port in ports).any()),
            self.write_stray.eq(given.any() & ~lasts.o.valid),
            *(port.bready.eq(answered | ~lasts.o.valid) for port in ports),
        ]


class _PageSplit(wiring.Component):
    """Cuts requests at the ports' 4 KB boundaries and offers each burst to all ports.

    ``offer`` pulses in the first cycle in which a burst is offered, with its ``length``, beats less one, and ``last``
    (of its request); it begins under ``permit`` only, and lasts until all ports have taken it.
    """

    def __init__(self, parameters: DieParameters, ports: int):
        self.ports = ports
        layout = request_layout(parameters)
        slice_bytes = parameters.beat_bits // 8 // ports
        self.page_log2 = ceil_log2(PAGE_BYTES // slice_bytes)
        super().__init__({
            "i": In(stream.Signature(layout)),
            "address": Out(layout["address"].width), "length": Out(exact_log2(MAX_BEATS)),
            "last": Out(1), "permit": In(1), "valid": Out(ports), "ready": In(ports), "offer": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        page_bits = self.page_log2
        request, address = self.i.payload, Signal(len(self.address))
        # Beats of the request behind the first one, and where its last one would be, from the page's begin.
        busy, more, end = Signal(), Signal(len(self.length)), Signal(max(page_bits, len(self.length)) + 1)
        sent = Signal(self.ports)
        offered, offers, step, load = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            end.eq(address[:page_bits] + more),
            self.last.eq(~end[page_bits:].any()),
            self.length.eq(Mux(self.last, more, ~address[:page_bits])),
            self.address.eq(address),
            offers.eq(busy & (self.permit | offered)),
            self.offer.eq(offers & ~offered),
            self.valid.eq(Mux(offers, ~sent, 0)),
            step.eq(offers & (sent | self.ready).all()),
            self.i.ready.eq(~busy | (step & self.last)),
            load.eq(self.i.valid & self.i.ready),
        ]
        m.d.sync += offered.eq(offers & ~step)
        with m.If(step):
            m.d.sync += sent.eq(0)
        with m.Else():
            m.d.sync += sent.eq(sent | (self.valid & self.ready))
        with m.If(self.i.ready):
            m.d.sync += busy.eq(self.i.valid)
        # A request's beats less one, or what is left of it on the next page.
        with m.If(load | step):
            m.d.sync += [
                more.eq(table_sum(m, platform, "next_more", [
                    Digits((load, request.beats[:len(more)], (end - (1 << page_bits))[:len(more)]),
                           lambda load, beats, rest: (beats & load) | (rest & ~load), lambda load, *_: load)])),
                address[:page_bits].eq(Mux(load, request.address[:page_bits], 0)),
                address[page_bits:].eq(loaded_sum(m, platform, "next_page", load, request.address[page_bits:],
                                                  address[page_bits:], Const(1, 1))),
            ]
        return m


assert MAX_BEATS <= 256, MAX_BEATS  # AXI4's longest INCR burst
