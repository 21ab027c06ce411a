"""The transfer engine's tasks that code: runs of this die's memory become strings at any die's, and strings runs.

::

    ENCODE  CodeWalk --masks, words--> (TileRead) --> RunEncoder --> StringWriter --> o
    DECODE  CodeWalk --masks, fills--> (TileRead) --> RunDecoder --> RowCut ----+---> o
                                     StringReader ------^ +--> masks --> MaskStore
    PREDICT                           Prediction, with a walk of its own -----------> o

A row of a task is a run. Throughput: that of :mod:`~plinth_hw.comm.codes.run_code`; decoding, a run more the latency of
memory twice, as its string begins with its length. Source: MPT section V; DESIGN "One transfer pipeline".
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from plinth_hw.comm.codes.bits import WORD
from plinth_hw.comm.codes.block import run_flit_layout
from plinth_hw.comm.codes.mask_store import MaskStore
from plinth_hw.comm.codes.predict import Prediction
from plinth_hw.comm.codes.row_cut import CodeRowCut
from plinth_hw.comm.codes.run_code import PART, RunDecoder, RunEncoder
from plinth_hw.comm.codes.string_read import StringReader
from plinth_hw.comm.codes.string_write import StringWriter
from plinth_hw.comm.codes.walk import CodeWalk
from plinth_hw.comm.tile_read import PieceUse, tile_flit_layout, tile_piece_layout
from plinth_hw.control.engine import BodyWord
from plinth_hw.isa.codes import LEVELS, MOST_SHIFT, SCALES, STEPS
from plinth_hw.isa.layout import WORD_BITS
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.tasks import field_word
from plinth_hw.isa.transfer_bodies import CodeBody
from plinth_hw.isa.winograd import FROM_ELEMENTS, MATRICES, matrix_numbers
from plinth_hw.lib.fifo import FIFO, Storage
from plinth_hw.memory.port import TASK_BITS, ReadPort
from plinth_hw.shapes import shape_of


class CodeStages(wiring.Component):
    """Codes and decodes.

    Parameters
    ----------
    parameters : DieParameters
        With codes.

    Members
    -------
    body_valid, body : In(1), In(BodyWord)
        A word of a task's body, with the address in place of a pointer; none comes from ``start`` until ``idle``.
    unfit, unpredictable : Out(1)
        What it asks for is no code; no prediction.
    start, decodes, predicts : In(1)
        Pulse: the task begins; whether that is DECODE, or PREDICT, until ``idle``.
    task : In
        As of requests.
    read : Out(ReadPort)
        Of strings.
    piece : Out stream of :func:`~plinth_hw.comm.tile_read.tile_piece_layout`
    flit : In stream of :func:`~plinth_hw.comm.tile_read.tile_flit_layout`
        What was read of them.
    o : Out stream of the same
        Each packet is one that ``last`` marks.
    idle : Out(1)
        Everything has been given.
    wrong : Out(1)
        A string has not its room, or is not as long as its run's words take; from then until the next ``start``.
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        piece, flit = (stream.Signature(layout(parameters)) for layout in (tile_piece_layout, tile_flit_layout))
        super().__init__({
            "body_valid": In(1), "body": In(BodyWord), "unfit": Out(1), "unpredictable": Out(1), "start": In(1),
            "decodes": In(1), "predicts": In(1),
            "task": In(TASK_BITS), "read": Out(ReadPort(parameters)), "piece": Out(piece), "flit": In(flit),
            "o": Out(flit), "idle": Out(1), "wrong": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        body, addresses = self._body(m)
        m.submodules.walk = walk = CodeWalk(self.parameters)
        for side, name in ((walk.words, "source"), (walk.masks, "mask")):
            m.d.comb += [side.first.eq(addresses[name]), side.stride.eq(body[f"{name}_row_stride"])]
        m.d.comb += [
            self.unfit.eq(_unfit(m, body)),
            walk.rows.eq(body.rows), walk.columns.eq(body.columns),
            walk.masked.eq(body.follows | (body.skips & body.given & ~(self.decodes & body.sent))),
            walk.worded.eq(~self.decodes | body.follows),
            # Of a first part nothing is known that would have to be read.
            walk.start.eq(self.start & ~self.predicts & (walk.worded | walk.masked)),
        ]
        # Rows that have not been given, and where the first of them goes.
        rows, place = Signal(WORD, name="rows_left"), Signal(self.parameters.address_bits, name="row_place")
        row_done, wrong = Signal(name="row_done"), Signal(name="row_wrong")
        with m.If(self.start):
            m.d.sync += [rows.eq(Mux(self.predicts, 0, body.rows)), place.eq(addresses["destination"]),
                         self.wrong.eq(0)]
        with m.Elif(row_done):
            m.d.sync += [rows.eq(rows - 1), place.eq(place + body.destination_row_stride)]
        with m.If(wrong):
            m.d.sync += self.wrong.eq(1)
        m.submodules.encoder = encoder = RunEncoder(self.parameters)
        m.submodules.decoder = decoder = RunDecoder(self.parameters)
        for coder in (encoder, decoder):
            m.d.comb += [coder.part[name].eq(body[name]) for name, _ in PART]
        strings, encoded, full = self._encode(m, body, encoder, place)
        words, decoded, (unlike, checks) = self._decode(m, body, addresses["codes"], decoder, place, walk.masks)
        prediction = self._predict(m, body, addresses)
        self._read(m, encoder, decoder, prediction)
        m.d.comb += [
            row_done.eq(Mux(self.decodes, decoded, encoded)), wrong.eq(Mux(self.decodes, unlike, full)),
            self.o.payload.eq(Mux(self.predicts, prediction.o.payload, Mux(
                self.decodes, words.payload, strings.payload))),
            self.o.valid.eq(words.valid | strings.valid | prediction.o.valid),
            *(part.ready.eq(self.o.ready) for part in (words, strings, prediction.o)),
        ]
        self._arrive(m, body, walk, prediction, (rows == 0) & walk.done & prediction.idle & ~self.o.valid & ~checks)
        return m

    def _predict(self, m: Module, body: Any, addresses: dict[str, Value]) -> Prediction:
        """A prediction, with the matrices of the die that make neurons."""
        numbers = [number for number in matrix_numbers(self.parameters.transforms) if number in FROM_ELEMENTS]
        m.submodules.prediction = prediction = Prediction(self.parameters, [MATRICES[number] for number in numbers])
        task = prediction.task
        known, even = ({way: Signal(name=f"{way}_{name}") for way in ("down", "across")} for name in ("known", "even"))
        for way, is_known in known.items():
            with m.Switch(body[way]):
                for place, number in enumerate(numbers):
                    with m.Case(number):
                        m.d.comb += [task[way].eq(place), is_known.eq(1), even[way].eq(len(MATRICES[number]) % 2 == 0)]
        unpooled = (body.destination_row_step == 0) & (body.destination_column_step == 0)
        pooled = (body.destination_row_step == 2) & (body.destination_column_step == 2) & even["down"] & even["across"]
        lanes, level = self.parameters.flit_words, Signal(signed(9), name="fills_level")
        m.d.comb += [
            prediction.start.eq(self.start & self.predicts), task.fills.eq(addresses["source"]),
            task.bias.eq(addresses["codes"]), task.masks.eq(addresses["destination"]),
            task.element.eq(body.source_plane_stride), task.tile.eq(body.source_row_stride),
            task.pitch.eq(body.destination_row_stride), task.tiles.eq(body.rows), task.channels.eq(body.columns),
            task.level.eq(body.first), task.regions.eq(body.regions), level.eq(body.first),
            task.bounded.eq(body.destination_rows != 0), task.pools.eq(~unpooled),
            task.map_rows.eq(body.destination_rows), task.map_columns.eq(body.destination_columns),
            task.adds.eq(body.source_across != 0), task.maps.eq(addresses["mask"]),
            task.map_pitch.eq(body.mask_row_stride), task.below.eq(body.source_down), task.right.eq(body.source_across),
            self.unpredictable.eq((body.planes != 1) | ~known["down"] | ~known["across"] | ~(unpooled | pooled)
                                  | (task.adds & (~task.bounded | task.pools)) | (body.columns[:exact_log2(lanes)] != 0)
                                  | Mux(body.regions != 0, (level < SCALES.start) | (level >= SCALES.stop),
                                        (level < LEVELS.start + MOST_SHIFT) | (level >= LEVELS.stop))),
        ]
        return prediction

    def _arrive(self, m: Module, body: Any, walk: CodeWalk, prediction: Prediction, finished: Value) -> None:
        """Pieces of the walk, or of a prediction; once everything has been given, and nothing is wrong, that of the
        arrival."""
        piece, owed = self.piece.payload, Signal(name="arrival_owed")
        walked = Signal.like(piece, name="walked_piece")
        m.d.comb += walked.eq(Mux(self.predicts, prediction.piece.payload, walk.piece.payload))
        arrives = finished & owed & ~self.wrong
        m.d.comb += [
            *(piece[name].eq(walked[name]) for name in ("source", "last", "more")),
            piece.run.words.eq(walked.run.words), piece.run.address.eq(Mux(arrives, body.arrival, 0)),
            piece.use.eq(Mux(arrives, PieceUse.ARRIVAL, walked.use)), piece.tail.eq(1),
            self.piece.valid.eq(walk.piece.valid | prediction.piece.valid | arrives),
            walk.piece.ready.eq(self.piece.ready), prediction.piece.ready.eq(self.piece.ready),
            self.idle.eq(finished & ~arrives),
        ]
        with m.If(self.start):
            m.d.sync += owed.eq(body.arrival_enable)
        with m.Elif(arrives & self.piece.ready):
            m.d.sync += owed.eq(0)

    def _body(self, m: Module) -> tuple[Any, dict[str, Value]]:
        """The body, and its addresses."""
        shapes = shape_of(CodeBody)
        words = Signal(data.ArrayLayout(unsigned(WORD_BITS), CodeBody.BITS // WORD_BITS), name="body_words")
        with m.If(self.body_valid), m.Switch(self.body.index):
            for index in range(CodeBody.BITS // WORD_BITS):
                with m.Case(index):
                    m.d.sync += words[index].eq(self.body.word)
        return data.View(shapes, words.as_value()), {
            name: words[field_word(CodeBody, name)] for name in ("source", "destination", "codes", "mask")}

    def _read(self, m: Module, encoder: RunEncoder, decoder: RunDecoder, prediction: Prediction) -> None:
        """Words that were read, with their bits of the mask, to who takes them."""
        flit, payload = self.flit.payload, Signal(run_flit_layout(self.parameters), name="read")
        mask, is_mask = Signal(WORD, name="mask"), Signal(name="is_mask")
        m.submodules.runs = runs = FIFO(payload.shape(), 2, Storage.HEAD)
        m.d.comb += [
            is_mask.eq(flit.tag.use == PieceUse.INDEX),
            payload.data.eq(flit.data), payload.words.eq(flit.words), payload.mask.eq(mask),
            payload.ends.eq(flit.tag.last & flit.tail),
            self.flit.ready.eq(Mux(self.predicts, prediction.flit.ready, Mux(
                is_mask, ~self.decodes | ~decoder.part.skips | decoder.mask.ready, runs.i.ready))),
            runs.i.payload.eq(payload), runs.i.valid.eq(self.flit.valid & ~is_mask & ~self.predicts),
            runs.o.ready.eq(Mux(self.decodes, decoder.i.ready, encoder.i.ready)),
            decoder.mask.payload.eq(flit.data[0]),
            decoder.mask.valid.eq(self.flit.valid & is_mask & self.decodes & decoder.part.skips),
            prediction.flit.payload.eq(flit), prediction.flit.valid.eq(self.flit.valid & self.predicts),
        ]
        for coder, way in ((encoder, ~self.decodes), (decoder, self.decodes)):
            m.d.comb += [coder.i.payload.eq(runs.o.payload), coder.i.valid.eq(runs.o.valid & way)]
        with m.If(self.flit.valid & self.flit.ready):
            m.d.sync += mask.eq(Mux(is_mask, flit.data[0], mask >> self.parameters.flit_words))

    def _encode(self, m: Module, body: Any, encoder: RunEncoder, place: Value) -> tuple[Any, Value, Value]:
        """Strings that go out; whether one has been given; whether it had no room."""
        m.submodules.writer = writer = StringWriter(self.parameters)
        connect(m, encoder.o, writer.i)
        m.d.comb += [writer.place.eq(place), writer.room.eq(body.destination_row_stride)]
        return writer.o, writer.given, writer.given & writer.full

    def _decode(self, m: Module, body: Any, first: Value, decoder: RunDecoder, place: Value, masks: Value
                ) -> tuple[Any, Value, tuple[Value, Value]]:
        """Words that go to their places; whether a row has been given; as :meth:`_unlike` says it, whether a string was
        not as long as it should be."""
        m.submodules.reader = reader = StringReader(self.parameters)
        m.submodules.decoded = decoded = FIFO(run_flit_layout(self.parameters), 2, Storage.HEAD)
        m.submodules.cut = cut = CodeRowCut(self.parameters)
        m.submodules.store = store = MaskStore(self.parameters)
        connect(m, reader.read, flipped(self.read))
        connect(m, reader.words, decoder.words)
        connect(m, decoder.map, store.map)
        connect(m, decoded.o, cut.i)
        connect(m, cut.o, store.i)
        at, left = Signal(self.parameters.address_bits, name="string_place"), Signal(WORD, name="strings_left")
        begins, ends, wanted = (Signal(name=name) for name in ("run_begins", "run_ends", "run_wanted"))
        string = reader.string
        m.d.comb += [
            # A run of which nothing is masked needs no more of its string than the length.
            decoded.i.payload.eq(decoder.o.payload), decoded.i.valid.eq(decoder.o.valid & reader.known),
            decoder.o.ready.eq(decoded.i.ready & reader.known),
            string.payload.place.eq(at), string.payload.room.eq(body.codes_row_stride), string.valid.eq(begins),
            reader.task.eq(self.task), cut.place.eq(place), cut.words.eq(body.columns),
            ends.eq(decoded.i.valid & decoded.i.ready & decoder.o.payload.ends), reader.ends.eq(ends),
            decoder.clear.eq(ends), store.start.eq(self.start), store.place.eq(masks),
            decoder.run.valid.eq(wanted), decoder.run.payload.eq(body.columns),
        ]
        # A run's words come once its string's do, and the next run's after that.
        with m.If(self.start):
            m.d.sync += [at.eq(first), begins.eq(self.decodes), wanted.eq(self.decodes & ~body.follows),
                         left.eq(body.rows - 1)]
        with m.Elif(string.valid & string.ready):
            m.d.sync += [at.eq(at + body.codes_row_stride), begins.eq(left != 0),
                         wanted.eq((left != 0) & ~body.follows), left.eq(left - 1)]
        with m.If(decoder.run.valid & decoder.run.ready):
            m.d.sync += wanted.eq(0)
        return store.o, cut.given, self._unlike(m, reader, decoder, ends)

    def _unlike(self, m: Module, reader: StringReader, decoder: RunDecoder, ends: Signal) -> tuple[Value, Value]:
        """Whether a run's string is not as long as its words take, and whether that is still to be told; two cycles
        after the run ``ends``."""
        # Bits of the last cycle, of the string until then, and its words; counted from when a string's length comes on.
        step, taken, words = Signal.like(decoder.taken, name="step"), Signal(WORD, name="bits_taken"), Signal(
            WORD, name="words_taken")
        known, beyond = Signal(name="was_known"), Signal(name="beyond")
        ended, told = Signal(name="run_ended"), Signal(name="length_told")
        m.d.sync += [
            known.eq(reader.known), step.eq(decoder.taken), taken.eq(Mux(reader.known & ~known, 0, taken + step)),
            words.eq((taken + (WORD - 1)) >> exact_log2(WORD)), beyond.eq(reader.full | decoder.beyond),
            ended.eq(ends), told.eq(ended),
        ]
        return told & (beyond | (words != reader.length)), ended | told


def _unfit(m: Module, body: Any) -> Value:
    """Whether a body asks for no code."""
    def beyond(name: str, levels: range = LEVELS) -> Value:
        level = Signal(signed(9), name=f"{name}_level")
        m.d.comb += level.eq(body[name])
        return (level < levels.start) | (level >= levels.stop)

    step = Signal(signed(10), name="step")
    m.d.comb += step.eq(body.known - body.lower)
    unreachable = beyond("lower") | (step < STEPS.start) | (step >= STEPS.stop)
    unlevelled = beyond("first") | (body.follows & (beyond("known") | (~body.exact & unreachable)))
    of_regions = body.regions != 0
    unscaled = beyond("first", SCALES) | (body.follows & ~body.exact)
    maskless = ~(body.sent | body.given) | (body.maps & (body.given | ~body.sent))
    return (body.planes != 1) | Mux(body.skips, body.follows | of_regions | maskless,
                                    body.maps | Mux(of_regions, unscaled, unlevelled))
