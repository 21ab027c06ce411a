"""The host bridge: requests that come over a serial line, as accesses of an AXI4-Lite slave.

::

    rx -> Receiver -> RequestReader -> one request at a time <-> axil
                                             |
    tx <- Transmitter <- AnswerStore <-------+

A request is acted on once it is there as a whole and checked. Requests are numbered: the next one is done and its
answer kept, one of the last few since the last SYNC has been done and its answer is sent again, any other is passed
over. So a host that sends a request until it has the answer has it done once, and may have as many under way as answers
are kept. After reset nothing is done before a SYNC, so that what a host meant for the bridge before the reset is not
done twice.

A word takes about 40 cycles to read and 8 to write, beside those of the slave, of the 160 and more that it takes on the
line; an answer goes out while the next request is being done. The access that fails ends its request.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect
from amaranth.utils import ceil_log2

from plinth_hw.control.registers import AXI4LiteSignature
from plinth_hw.host.answers import AnswerStore
from plinth_hw.host.requests import RequestReader
from plinth_hw.host.uart import Receiver, Transmitter
from plinth_hw.isa.frames import AnswerTrailer, BridgeParameters, RequestHeader, RequestKind
from plinth_hw.shapes import shape_of


class Bridge(wiring.Component):
    """A serial line in, an AXI4-Lite master out.

    Parameters
    ----------
    parameters : BridgeParameters

    Members
    -------
    rx, tx : In(1), Out(1)
        The line.
    axil : Out(AXI4LiteSignature)
        One access at a time.
    """

    def __init__(self, parameters: BridgeParameters) -> None:
        self.parameters = parameters
        super().__init__({"rx": In(1), "tx": Out(1, init=1), "axil": Out(AXI4LiteSignature())})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        parameters, axil = self.parameters, self.axil
        m.submodules.receiver = receiver = Receiver(parameters.cycles_per_bit)
        m.submodules.transmitter = transmitter = Transmitter(parameters.cycles_per_bit)
        m.submodules.requests = requests = RequestReader(parameters.slots * parameters.slot_bytes // 4)
        m.submodules.answers = answers = AnswerStore(parameters.slots, parameters.slot_bytes)
        connect(m, answers.o, transmitter.i)
        m.d.comb += [
            receiver.rx.eq(self.rx), self.tx.eq(transmitter.tx),
            *(getattr(requests, name).eq(getattr(receiver, name)) for name in ("byte", "valid", "broken")),
        ]

        header, address = Signal(shape_of(RequestHeader)), Signal.like(axil.awaddr)
        answer = Signal(shape_of(AnswerTrailer))
        done, response = Signal(range(parameters.words + 1)), Signal(2)
        latest, behind, begun = Signal(8), Signal(8), Signal()  # the last request that was done
        kept = Signal(range(parameters.slots + 1))  # slots that hold answers since the last SYNC, its own among them
        asked, reply = requests.o, answers.i
        fresh, known = Signal(), Signal()
        m.d.comb += [
            behind.eq(latest - header.sequence),
            fresh.eq(begun & behind.all()), known.eq(begun & (behind < kept)),
            answer.sequence.eq(header.sequence), answer.response.eq(response),
            answer.count.eq(Mux(header.operation == RequestKind.SYNC, address, done)),
            answers.slot.eq(header.sequence[:ceil_log2(parameters.slots)]), answers.send.payload.eq(answers.slot),
            axil.awaddr.eq(address), axil.araddr.eq(address),
            axil.wdata.eq(asked.payload.word), axil.wstrb.eq(0xF),
            axil.bready.eq(1), axil.rready.eq(1),
        ]
        failed = Signal()
        m.d.comb += failed.eq(response != 0)
        # An access is offered by registers, and its response taken into some.
        writes, reads, under_way, ends, ended_well = Signal(), Signal(), Signal(), Signal(), Signal()
        came, its_response, read_word = Signal(), Signal.like(response), Signal.like(axil.rdata)
        with m.If(axil.bvalid | axil.rvalid):
            m.d.sync += [came.eq(1), its_response.eq(Mux(axil.rvalid, axil.rresp, axil.bresp)),
                         read_word.eq(axil.rdata)]
        with m.Elif(ends):
            m.d.sync += came.eq(0)
        m.d.comb += ended_well.eq(its_response == 0)
        with m.If(writes | reads):
            m.d.sync += under_way.eq(1)
        for begins, valid, ready in ((writes, axil.awvalid, axil.awready), (writes, axil.wvalid, axil.wready),
                                     (reads, axil.arvalid, axil.arready)):
            with m.If(begins):
                m.d.sync += valid.eq(1)
            with m.Elif(ready):
                m.d.sync += valid.eq(0)
        with m.If(ends):
            m.d.sync += [under_way.eq(0), response.eq(its_response), done.eq(done + ended_well)]
            with m.If(~header.fixed):
                m.d.sync += address.eq(address + 4)

        with m.FSM():
            with m.State("HEADER"):
                m.d.comb += asked.ready.eq(1)
                m.d.sync += [header.eq(asked.payload.word), done.eq(0), response.eq(0)]
                with m.If(asked.valid & ~asked.payload.last):
                    m.next = "ADDRESS"
            with m.State("ADDRESS"):
                m.d.comb += asked.ready.eq(1)
                m.d.sync += address.eq(asked.payload.word)
                with m.If(asked.valid):
                    with m.If(asked.payload.last):
                        m.next = "HEADER"
                    with m.Elif(fresh & (header.operation == RequestKind.WRITE)):
                        m.d.sync += [latest.eq(header.sequence), kept.eq(kept + (kept != parameters.slots))]
                        m.next = "WRITE"
                    with m.Else():
                        m.next = "END"
            with m.State("END"):  # of the request
                m.d.comb += asked.ready.eq(1)
                with m.If(asked.valid & asked.payload.last):
                    m.next = "HEADER"
                    with m.If(header.operation == RequestKind.SYNC):
                        m.d.sync += [latest.eq(header.sequence), begun.eq(1), kept.eq(1)]
                        m.next = "SYNC"
                    with m.Elif(fresh):
                        m.d.sync += [latest.eq(header.sequence), kept.eq(kept + (kept != parameters.slots))]
                        m.next = "READ"
                    with m.Elif(known):
                        m.next = "SEND"
            with m.State("WRITE"):
                with m.If(asked.valid & (asked.payload.last | failed)):
                    m.d.comb += asked.ready.eq(1)
                    with m.If(asked.payload.last):
                        m.next = "ANSWER"
                with m.Elif(asked.valid):
                    m.d.comb += [writes.eq(~under_way), asked.ready.eq(ends), ends.eq(came)]
            with m.State("READ"):
                m.d.comb += [reply.valid.eq(came & ended_well), reply.payload.word.eq(read_word),
                             ends.eq(came & reply.ready)]
                with m.If(~under_way):
                    with m.If(failed | (done == header.count[:len(done)]) | (done == parameters.words)):
                        m.next = "ANSWER"
                    with m.Else():
                        m.d.comb += reads.eq(1)
            with m.State("SYNC"):
                m.d.comb += [reply.valid.eq(1), reply.payload.word.eq(Const(parameters.limits, 32))]
                with m.If(reply.ready):
                    m.next = "ANSWER"
            with m.State("ANSWER"):
                m.d.comb += [reply.valid.eq(1), reply.payload.word.eq(Cat(answer)), reply.payload.last.eq(1)]
                with m.If(reply.ready):
                    m.next = "KEPT"
            with m.State("KEPT"), m.If(answers.done):
                m.next = "SEND"
            with m.State("SEND"):
                m.d.comb += answers.send.valid.eq(1)
                with m.If(answers.send.ready):
                    m.next = "HEADER"
        return m
