"""One memory of two by address: what lies below a bound goes to one, the rest to the other.

::

    request --> cut at the bound --> low.request or high.request
                                 --> FIFO of (side, beats)   --> read data, in that order, from either side
                                                             --> written data, in that order, to either side
                                 --> FIFO of (side, last)    --> responses, in that order
    low.response --> count;  high.response, error --> FIFO

Requests keep their order, whatever is faster: read data of one side wait for those of the other, and so do responses.
Latency: one cycle for a request, none for data, one for a response; a request across the bound takes two cycles.
Throughput: one beat a cycle each way, one request a cycle each way.
"""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.isa.parameters import MAX_BEATS, DieParameters
from plinth_hw.lib.fifo import FIFO
from plinth_hw.memory.port import ReadPort, WritePort, request_layout


class AddressSplit(wiring.Component):
    """Two memories as one.

    Parameters
    ----------
    parameters : DieParameters
    beats : int
        Size of the low one; a multiple of ``MAX_BEATS``. The high one has all addresses from there on.
    outstanding : int
        Requests each way that may wait for data or a response; a power of two.

    Members
    -------
    read : In(ReadPort), write : In(WritePort)
        The crossbar.
    low_read, high_read : Out(ReadPort), low_write, high_write : Out(WritePort)
        The memories, which answer requests in their order.
    high_read_error : In(1)
        Beside a beat on ``high_read``: it could not be read.
    high_read_not_last : In(1)
        Beside a beat on ``high_read``: it cannot be the last one of a request.
    high_write_error : In(1)
        At or before the response of the oldest request of ``high_write``: it could not be written.
    high_read_idle : Out(1)
        No beat of either side is awaited.
    read_error, read_not_last, write_error : Out(1)
        The same of ``read`` and ``write``.

    Raises
    ------
    ValueError
        If ``beats`` is no positive multiple of ``MAX_BEATS``.
    """

    def __init__(self, parameters: DieParameters, beats: int, outstanding: int = 64):
        if beats < 1 or beats % MAX_BEATS:
            raise ValueError(f"Beats must be a positive multiple of {MAX_BEATS}, not {beats!r}")
        self.parameters = parameters
        self.beats = beats
        self.outstanding = outstanding
        super().__init__({
            "read": In(ReadPort(parameters)), "write": In(WritePort(parameters)),
            **{f"{side}_read": Out(ReadPort(parameters)) for side in ("low", "high")},
            **{f"{side}_write": Out(WritePort(parameters)) for side in ("low", "high")},
            "high_read_error": In(1), "high_read_not_last": In(1), "high_write_error": In(1), "high_read_idle": Out(1),
            "read_error": Out(1), "read_not_last": Out(1), "write_error": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._read(m)
        self._write(m)
        return m

    def _requests(self, m: Module, way: str) -> tuple["_Cut", "_Order"]:
        """The requests of one way, cut, and whose data come next."""
        m.submodules[f"{way}_cut"] = cut = _Cut(self.parameters, self.beats)
        m.submodules[f"{way}_order"] = order = _Order(cut.part.shape(), self.outstanding)
        wiring.connect(m, wiring.flipped(getattr(self, way).request), cut.i)
        for side in ("low", "high"):
            wiring.connect(m, getattr(cut, side), wiring.flipped(getattr(self, f"{side}_{way}").request))
        m.d.comb += [order.i.payload.eq(cut.part), order.i.valid.eq(cut.step)]
        return cut, order

    def _read(self, m: Module) -> None:
        cut, order = self._requests(m, "read")
        low, high, client = self.low_read.data, self.high_read.data, self.read.data
        m.d.comb += [
            cut.permit.eq(order.i.ready),
            client.payload.eq(Mux(order.high, high.payload.as_value(), low.payload.as_value())),
            client.valid.eq(order.valid & Mux(order.high, high.valid, low.valid)),
            low.ready.eq(order.valid & ~order.high & client.ready),
            high.ready.eq(order.valid & order.high & client.ready), self.high_read_idle.eq(order.empty),
            order.step.eq(client.valid & client.ready),
            self.read_error.eq(self.high_read_error & order.valid & order.high),
            self.read_not_last.eq(self.high_read_not_last & order.high),
        ]

    def _write(self, m: Module) -> None:
        cut, order = self._requests(m, "write")
        answers = FIFO(data.StructLayout({"high": unsigned(1), "last": unsigned(1)}), self.outstanding)
        m.submodules.answers = answers
        m.submodules.high_answers = high_answers = FIFO(1, self.outstanding)
        low, high, client = self.low_write.data, self.high_write.data, self.write.data
        low_answers = Signal(range(self.outstanding + 1))
        failed, answered = Signal(name="write_failed"), Signal()  # the request under way at ``high_write`` has failed
        m.d.comb += [
            cut.permit.eq(order.i.ready & answers.i.ready),
            answers.i.payload.high.eq(cut.part.high), answers.i.payload.last.eq(cut.part.last),
            answers.i.valid.eq(cut.step),
            low.payload.eq(client.payload), high.payload.eq(client.payload),
            low.valid.eq(order.valid & ~order.high & client.valid),
            high.valid.eq(order.valid & order.high & client.valid),
            client.ready.eq(order.valid & Mux(order.high, high.ready, low.ready)),
            order.step.eq(client.valid & client.ready),
            high_answers.i.valid.eq(self.high_write.response),
            high_answers.i.payload.eq(failed | self.high_write_error),
            answered.eq(answers.o.valid & Mux(answers.o.payload.high, high_answers.o.valid, low_answers != 0)),
            answers.o.ready.eq(answered), high_answers.o.ready.eq(answered & answers.o.payload.high),
            self.write.response.eq(answered & answers.o.payload.last),
            self.write_error.eq(answered & answers.o.payload.high & high_answers.o.payload),
        ]
        m.d.sync += [
            failed.eq((failed | self.high_write_error) & ~self.high_write.response),
            low_answers.eq(low_answers + self.low_write.response - (answered & ~answers.o.payload.high)),
        ]


class _Cut(wiring.Component):
    """Sends each request to the side of its address; of one across the bound each its part.

    ``step`` pulses when a part is taken, with its ``high``, ``beats``, and ``last`` of its request in ``part``; only
    under ``permit``, which then stays.
    """

    def __init__(self, parameters: DieParameters, bound: int):
        self.bound = bound
        layout = request_layout(parameters)
        super().__init__({
            "i": In(stream.Signature(layout)),
            "low": Out(stream.Signature(layout)), "high": Out(stream.Signature(layout)),
            "part": Out(data.StructLayout({"high": unsigned(1), "beats": layout["beats"].shape, "last": unsigned(1)})),
            "permit": In(1), "step": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        held, valid = Signal.like(self.i.payload), Signal()
        blocks = exact_log2(MAX_BEATS)
        room = Signal(len(held.beats))  # to the end of the block of MAX_BEATS, of which one ends at the bound
        m.d.comb += [
            room.eq(MAX_BEATS - held.address[:blocks]),
            self.part.high.eq(held.address >= self.bound),
            self.part.last.eq((held.address[blocks:] != (self.bound >> blocks) - 1) | (held.beats <= room)),
            self.part.beats.eq(Mux(self.part.last, held.beats, room)),
            self.low.valid.eq(valid & self.permit & ~self.part.high),
            self.high.valid.eq(valid & self.permit & self.part.high),
            self.step.eq((self.low.valid & self.low.ready) | (self.high.valid & self.high.ready)),
            self.i.ready.eq(~valid | (self.step & self.part.last)),
        ]
        for side in (self.low, self.high):
            m.d.comb += [side.payload.address.eq(held.address), side.payload.beats.eq(self.part.beats),
                         side.payload.task.eq(held.task)]
        with m.If(self.i.ready):
            m.d.sync += [held.eq(self.i.payload), valid.eq(self.i.valid)]
        with m.Elif(self.step):
            m.d.sync += [held.address.eq(self.bound), held.beats.eq(held.beats - room)]
        return m


class _Order(wiring.Component):
    """Which side's data come next: ``high``, if ``valid``; ``empty``: no more are to come; ``step``: one beat of them
    has passed."""

    def __init__(self, part: data.StructLayout, outstanding: int):
        self.outstanding = outstanding
        super().__init__({"i": In(stream.Signature(part)), "valid": Out(1), "empty": Out(1), "high": Out(1),
                          "step": In(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.parts = parts = FIFO(self.i.payload.shape(), self.outstanding)
        wiring.connect(m, wiring.flipped(self.i), parts.i)
        taken = Signal.like(self.i.payload.beats)
        last = Signal()
        m.d.comb += [
            self.valid.eq(parts.o.valid), self.empty.eq(parts.empty), self.high.eq(parts.o.payload.high),
            last.eq(taken + 1 == parts.o.payload.beats), parts.o.ready.eq(self.step & last),
        ]
        with m.If(self.step):
            m.d.sync += taken.eq(Mux(last, 0, taken + 1))
        return m
