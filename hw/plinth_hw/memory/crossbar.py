"""Joins the engines' memory ports to one read port and one write port.

::

    readers (-> FIFO) --request--> round robin -> reg -> room (-> FIFO) -> address check -> memory.request
                                              -> FIFO of (reader, beats)
    memory.data (one stream) -> to the reader at the FIFO's head (-> FIFO)
    writers (-> FIFO) --request--> round robin -> reg -> room (-> FIFO) -> address check -> memory.request
                                              -> FIFO of (writer, beats), FIFO of writers
    data of the writer at the FIFO's head -> reg -> memory.data; memory.response -> writer of the oldest request

Grants are per request (at most ``MAX_BEATS`` beats). Latency: one cycle for a request and for written data, none for
read data and responses; where memory is on the chip alone, two more for requests and one for read data. Throughput:
one beat a cycle each way, one request a cycle each way. What clients give is registered for each of them, zero but for
the one wanted: so nothing has to be chosen, the OR of all is that client's. Requests to memory on the chip alone are
registered as they are, and chosen behind.

But for a written beat, and two read ones a reader where memory is on the chip alone, there is no data storage here, so
two rules keep the clients from stopping each other for good:

* A reader takes every beat it has asked for within a bounded time that depends on nothing but itself:
  it asks only when it has room for all of it.
* A writer that has made a request supplies its data within a bounded time that depends on nothing but
  itself and its own reads. It offers the request without waiting for its data to be taken.

By the first rule the read side always flows; by the second the write side waits for nothing but the
read side. So neither can deadlock.

Reads and writes are not ordered against each other: who reads what another engine wrote waits for
the write response, which task dependences do.
"""

from collections.abc import Sequence

from amaranth.hdl import Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from plinth_hw.arith.carry import counted_down
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.arbiter import RoundRobin
from plinth_hw.lib.choice import index_of, one_of, one_registered
from plinth_hw.lib.count import index_bits, population
from plinth_hw.lib.fifo import FIFO, Storage
from plinth_hw.lib.ram import SECTION
from plinth_hw.memory.port import TASK_BITS, ReadPort, WritePort, on_chip, request_layout

#: Requests that are checked and wait for memory on the chip.
_CHECKED = 4


def fault_layout(clients: int) -> data.StructLayout:
    """``valid``, the index of the client whose request failed, and the request's ``task``."""
    return data.StructLayout({"valid": unsigned(1), "index": unsigned(index_bits(clients)),
                              "task": unsigned(TASK_BITS)})


def _outstanding(parameters: DieParameters) -> tuple[int, int, int]:
    """Requests that may wait for read data, for their data to write, and for the response: as many as block RAM has
    under way; of single beats what DRAM's latency takes, and of writes what an AXI4 adaptor lets wait."""
    return (64, 16, 32) if parameters.axi_ports else (16, 16, 16)


def _storage(parameters: DieParameters, places: int) -> Storage:
    """Of a queue: behind a register, where memory is on the chip and answers at once; else, what it waits for takes
    longer than it does to come through sections."""
    if on_chip(parameters):
        return Storage.HEAD
    return Storage.LUT if places % SECTION else Storage.SECTIONS


class MemoryCrossbar(wiring.Component):
    """Round-robin crossbar of named clients onto one memory.

    Parameters
    ----------
    parameters : DieParameters
    readers, writers : sequence of str
        Names of the clients; each gives a member ``<name>``.
    outstanding : int or None
        Requests each way that may wait for data or a response; at least 2 where memory is on the chip alone. Unless
        told, as many as keep the memory busy.

    Members
    -------
    <reader> : In(ReadPort)
    <writer> : In(WritePort)
    memory_read : Out(ReadPort)
    memory_write : Out(WritePort)
    limit : In
        Size of the memory in beats. A request that passes it goes nowhere.
    read_fault, write_fault : Out :func:`fault_layout`
        ``valid`` pulses for one cycle when a request passed ``limit``. Nothing of the client that made it goes to the
        memory until reset.
    drain : In(1)
        Level: grant nothing more, and end what was granted without the clients: data that they were to read are
        thrown away, those that they were to write are written with no strobe set.
    drained : Out(1)
        Nothing more is granted, and nothing that was is under way.
    read_error, write_error : In(1)
        Beside a beat on ``memory_read``: it could not be read. While the oldest request of ``memory_write`` is
        unanswered: it could not be written.
    read_not_last : In(1)
        Beside the last beat of a request on ``memory_read``: memory has more, so that some beat is not what it seems.
    read_stray, write_stray : In(1)
        A beat or a response came that nothing had asked for.
    read_idle : Out(1)
        All requests of ``memory_read`` have had their beats.
    read_failed, write_failed : Out :func:`fault_layout`
        ``valid`` pulses in the next cycle. What nothing had asked for is the first client's, of task 0.
    words_read, words_written : Out
        Words that crossed in the cycle before: all words of a read beat, the strobed words of a written one.

    Raises
    ------
    ValueError
        If a side has no client, a name occurs twice, or ``outstanding`` is not positive.
    """

    def __init__(self, parameters: DieParameters, readers: Sequence[str], writers: Sequence[str],
                 outstanding: int | None = None):
        names = [*readers, *writers]
        if not readers or not writers:
            raise ValueError(f"A crossbar needs readers and writers, not {readers!r} and {writers!r}")
        if len(set(names)) != len(names):
            raise ValueError(f"Names of clients must differ, not {names!r}")
        if outstanding is not None and outstanding < 1:
            raise ValueError(f"Outstanding requests must be positive, not {outstanding!r}")
        self.parameters = parameters
        self.readers = tuple(readers)
        self.writers = tuple(writers)
        self.outstanding = outstanding
        words = parameters.beat_words.bit_length()
        super().__init__({
            **{name: In(ReadPort(parameters)) for name in readers},
            **{name: In(WritePort(parameters)) for name in writers},
            "memory_read": Out(ReadPort(parameters)),
            "memory_write": Out(WritePort(parameters)),
            "limit": In(parameters.address_bits - words + 2),
            "read_fault": Out(fault_layout(len(readers))),
            "write_fault": Out(fault_layout(len(writers))),
            "drain": In(1), "drained": Out(1),
            "read_error": In(1), "read_not_last": In(1), "write_error": In(1),
            "read_stray": In(1), "write_stray": In(1), "read_idle": Out(1),
            "read_failed": Out(fault_layout(len(readers))),
            "write_failed": Out(fault_layout(len(writers))),
            "words_read": Out(words),
            "words_written": Out(words),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        readers = [getattr(self, name) for name in self.readers]
        writers = [getattr(self, name) for name in self.writers]
        reads, writes, answers = (_outstanding(self.parameters) if self.outstanding is None
                                  else (self.outstanding,) * 3)
        m.submodules.read = read = _Grant(self.parameters, len(readers), reads)
        m.submodules.write = write = _Grant(self.parameters, len(writers), writes)
        # Where memory is on the chip, clients lie far apart, and from it: nothing goes there and back in a cycle.
        near, ends = on_chip(self.parameters), Signal(name="ends")
        m.d.sync += ends.eq(self.drain)
        for side, grant, clients, memory, fault in (
                ("reader", read, readers, self.memory_read, self.read_fault),
                ("writer", write, writers, self.memory_write, self.write_fault)):
            for index, client in enumerate(clients):
                request = client.request
                if near:
                    m.submodules[f"{side}_{index}"] = asked = FIFO(request.payload.shape(), 2, Storage.HEAD)
                    connect(m, flipped(request), asked.i)
                    request = asked.o
                m.d.comb += [
                    grant.valid[index].eq(request.valid), grant.payload[index].eq(request.payload),
                    request.ready.eq(grant.ready[index]),
                ]
            m.d.comb += [
                grant.limit.eq(self.limit), grant.drain.eq(ends),
                memory.request.payload.eq(grant.request.payload),
                memory.request.valid.eq(grant.request.valid & grant.permit),
                grant.request.ready.eq(memory.request.ready & grant.permit),
                fault.eq(grant.fault),
            ]

        words = self.parameters.beat_words
        beat, answers_wait = self.memory_read.data, Signal(len(readers), name="answers_wait")
        takes = Signal(len(readers), name="reader_takes")
        m.d.comb += [
            read.permit.eq(1), read.data_step.eq(beat.valid & beat.ready), self.read_idle.eq(read.data_idle),
            beat.ready.eq(((takes & read.data_whose).any() | ends) & read.data_valid),
        ]
        for index, client in enumerate(readers):
            offered, delivered = client.data, Signal(name=f"delivered_{index}")
            m.d.comb += delivered.eq(beat.valid & read.data_valid & read.data_whose[index])
            if near:
                m.submodules[f"queue_{index}"] = queue = FIFO(beat.payload.shape(), 2, Storage.HEAD)
                m.d.comb += [
                    queue.i.payload.eq(beat.payload), queue.i.valid.eq(delivered), takes[index].eq(queue.i.ready),
                    offered.payload.eq(queue.o.payload), offered.valid.eq(queue.o.valid),
                    queue.o.ready.eq(offered.ready | ends), answers_wait[index].eq(queue.o.valid),
                ]
            else:
                m.d.comb += [offered.payload.eq(beat.payload), offered.valid.eq(delivered),
                             takes[index].eq(offered.ready)]

        m.d.sync += [
            self.words_read.eq(Mux(read.data_step, words, 0)),
            self.read_failed.valid.eq(self.read_stray | (read.data_step & (
                self.read_error | (self.read_not_last & read.data_ends)))),
            self.read_failed.index.eq(Mux(self.read_stray, 0, index_of(read.data_whose))),
            self.read_failed.task.eq(Mux(self.read_stray, 0, read.data_task)),
        ]

        # The register has a beat; it is loaded, with what is no beat if there is none; it can take one.
        full, free, loads = Signal(name="full"), Signal(name="free"), Signal(name="loads")
        # It has no word: what is drained is written as that.
        void = Signal(name="void")
        written = self.memory_write.data.payload
        taken = Signal.like(written, name="taken")
        m.submodules.unanswered = unanswered = FIFO(data.StructLayout({
            "whose": unsigned(len(writers)), "task": unsigned(TASK_BITS)}), answers, _storage(self.parameters, answers))
        oldest = unanswered.o.payload
        m.d.comb += [
            write.permit.eq(unanswered.i.ready),
            unanswered.i.payload.whose.eq(write.request_whose),
            unanswered.i.payload.task.eq(write.request.payload.task),
            unanswered.i.valid.eq(self.memory_write.request.valid & self.memory_write.request.ready),
            unanswered.o.ready.eq(self.memory_write.response),
            write.data_step.eq(
                ((Cat(client.data.valid for client in writers) & write.data_whose).any() | ends) & loads),
            taken.eq(one_registered(m, "data", write.data_whose, [client.data.payload for client in writers], free)),
            written.data.eq(taken.data), written.strobe.eq(Mux(void, 0, taken.strobe)),
            self.drained.eq(ends & ~(read.busy | answers_wait.any() | write.busy | full) & unanswered.empty),
            self.memory_write.data.valid.eq(full),
            free.eq(~full | self.memory_write.data.ready), loads.eq(write.data_valid & free),
        ]
        m.d.sync += [
            self.words_written.eq(Mux(full & self.memory_write.data.ready, population(written.strobe), 0)),
            self.write_failed.valid.eq(self.write_error | self.write_stray),
            self.write_failed.index.eq(Mux(self.write_stray, 0, index_of(oldest.whose))),
            self.write_failed.task.eq(Mux(self.write_stray, 0, oldest.task)),
        ]
        with m.If(free):
            m.d.sync += [full.eq(write.data_step), void.eq(ends)]
        for index, client in enumerate(writers):
            m.d.comb += [
                client.data.ready.eq(loads & write.data_whose[index]),
                client.response.eq(self.memory_write.response & oldest.whose[index]),
            ]
        return m


class _Grant(wiring.Component):
    """One side's arbiter, address check, and queue of whose data come next."""

    def __init__(self, parameters: DieParameters, clients: int, outstanding: int):
        self.parameters = parameters
        self.clients = clients
        self.outstanding = outstanding
        self.layout = request_layout(parameters)
        super().__init__({
            "valid": In(1).array(clients), "payload": In(self.layout).array(clients),
            "ready": Out(1).array(clients),
            "limit": In(self.layout["address"].width + 1),
            "request": Out(stream.Signature(self.layout)), "request_whose": Out(clients),
            "permit": In(1), "drain": In(1), "busy": Out(1),
            "fault": Out(fault_layout(clients)),
            "data_valid": Out(1), "data_whose": Out(clients), "data_task": Out(TASK_BITS), "data_step": In(1),
            "data_idle": Out(1), "data_ends": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        held = Signal(self.layout)
        held_valid = Signal()
        blocked = Signal(self.clients)
        wanting = Signal(self.clients)
        free = Signal()
        takes = Signal()
        # What is checked: the request that was granted or, a cycle later, what comes out of the queue behind it; whose
        # it is.
        asked, asked_valid, whose = Signal(self.layout), Signal(), Signal(self.clients)
        moves = Signal()  # the one that was granted may leave
        room = Signal()
        inside = Signal()
        barred = Signal()
        queue_width = self.clients + 1 + self.layout["beats"].width + TASK_BITS
        m.submodules.queue = queue = FIFO(queue_width, self.outstanding, _storage(self.parameters, self.outstanding))

        m.submodules.turn = turn = RoundRobin(self.clients)
        m.d.comb += [
            wanting.eq(Cat(self.valid[index] for index in range(self.clients)) & ~blocked),
            turn.requests.eq(wanting), turn.taken.eq(free), takes.eq(free & wanting.any()),
        ]
        for index in range(self.clients):
            m.d.comb += self.ready[index].eq(free & turn.grant[index])
        if on_chip(self.parameters):
            # The grant would have to reach every register's reset in its cycle: it chooses behind them.
            offered = [Signal(self.layout, name=f"offered_{index}", reset_less=True) for index in range(self.clients)]
            with m.If(free):
                m.d.sync += [register.eq(payload) for register, payload in zip(offered, self.payload, strict=True)]
            m.d.comb += held.as_value().eq(one_of(turn.last, offered))
        else:
            m.d.comb += held.as_value().eq(one_registered(m, "held", turn.grant, self.payload, free))
        m.d.comb += [
            # A request that does not pass goes at once, so that what comes next need not know; by then the client of
            # one that was refused may have another one here.
            barred.eq((blocked & whose).any()),
            inside.eq(room & ~barred),
            self.request.payload.eq(asked),
            self.request_whose.eq(whose),
            self.request.valid.eq(asked_valid & inside & queue.i.ready),
            queue.i.payload.eq(Cat(asked.beats, asked.beats == 1, asked.task, whose)),
            queue.i.valid.eq(self.request.valid & self.request.ready),
            free.eq((~held_valid | moves) & ~self.drain),
            self.busy.eq(held_valid | asked_valid | ~queue.empty),
        ]
        m.d.sync += self.fault.valid.eq(0)
        with m.If(asked_valid & ~inside):
            m.d.sync += [self.fault.valid.eq(~barred), self.fault.index.eq(index_of(whose)),
                         self.fault.task.eq(asked.task), blocked.eq(blocked | whose)]
        # Beats from the request's first one to the end of the memory: one sum, and a short comparison.
        rest, known = Signal(signed(len(self.limit) + 1)), Signal(signed(len(self.limit) + 1))
        few = len(asked.beats)
        m.d.comb += [
            rest.eq(self.limit - held.address),
            room.eq(~known[-1] & (known[few:-1].any() | (known[:few] >= asked.beats))),
        ]
        gone = queue.i.valid | (asked_valid & ~inside)
        if on_chip(self.parameters):
            # The sum before the queue, the comparison behind it: each is a good part of a cycle of an FPGA.
            m.submodules.checked = checked = FIFO(data.StructLayout({
                "request": self.layout, "whose": self.clients, "rest": known.shape()}), _CHECKED, Storage.HEAD)
            place = checked.o.payload
            m.d.comb += [
                checked.i.payload.request.eq(held), checked.i.payload.whose.eq(turn.last),
                checked.i.payload.rest.eq(rest), checked.i.valid.eq(held_valid),
                asked.eq(place.request), whose.eq(place.whose), known.eq(place.rest),
                asked_valid.eq(checked.o.valid), checked.o.ready.eq(gone), moves.eq(checked.i.ready),
            ]
            with m.If(takes | moves):
                m.d.sync += held_valid.eq(takes)
        else:
            m.d.comb += [asked.eq(held), whose.eq(turn.last), known.eq(rest), asked_valid.eq(held_valid),
                         moves.eq(self.request.ready & queue.i.ready)]
            with m.If(takes | gone):
                m.d.sync += held_valid.eq(takes)

        # The beat to come is the first one of its request; if it is not, how many come after the next one.
        first = Signal(init=1)
        head_beats, head_single = Signal(self.layout["beats"].width), Signal()
        left = Signal(signed(len(head_beats) + 1))
        m.d.comb += [
            Cat(head_beats, head_single, self.data_task, self.data_whose).eq(queue.o.payload),
            self.data_valid.eq(queue.o.valid), self.data_idle.eq(queue.empty),
            self.data_ends.eq(Mux(first, head_single, left[-1])), queue.o.ready.eq(self.data_step & self.data_ends),
        ]
        with m.If(self.data_step):
            m.d.sync += [first.eq(queue.o.ready),
                         left.eq(counted_down(m, platform, "next_left", first, head_beats, left, gone=1))]
        return m
