"""Flow control of the drain memories: when tiles may end, drain, load and start.

A tile that ends leaves its sums in the drain memories of the array; there is one set, so

- the next tile may end only once the drain of this one is far enough ahead of it
  (``SystolicArray.capture_spacing``);
- the drain starts when the last sum is there (``compute_latency``), the output buffer has a free place,
  and the previous token is ``token_cycles`` old;
- a tile that accumulates loads its C by a token together with the drain of the tile before it, or
  later, but never before it, and starts ``load_latency`` after that.

A tile with K k steps thus follows the previous one without a pause if K >= R. With ``accumulate`` there is
a pause of about ``compute_latency`` + ``load_latency`` + ``DELAY`` cycles, that is R I and a few more.
"""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.lib.delay import delayed
from plinth_hw.matrix.feeder import FEED_LATENCY, READY_LATENCY
from plinth_hw.matrix.geometry import Geometry
from plinth_hw.matrix.preload import LATENCY as PRELOAD_LATENCY
from plinth_hw.matrix.systolic import SystolicArray


class TokenControl(wiring.Component):
    """Starts drains and loads.

    Members
    -------
    captured, captured_option : In
        The feeder has decided on the last k step of a tile.
    capture_ready : Out(1)
        A last k step may be decided.
    preload_wanted, preload_taken : In(1)
        As of the feeder; ``preload_ready`` Out(1).
    preload_full : In(1)
        The preload buffer is full; ``preload_start`` Out(1): it is to play.
    option : Out
        Of the tile to be drained.
    room : In(1)
        The output buffer has a place for ``option``; ``reserve`` Out(1): it is taken.
    drain_start, load_start : Out(1)
        For the array.
    """

    def __init__(self, geometry: Geometry, array: SystolicArray):
        self.geometry = geometry
        self.array = array
        super().__init__({
            "captured": In(1), "captured_option": In(geometry.option_bits), "capture_ready": Out(1),
            "preload_wanted": In(1), "preload_taken": In(1), "preload_ready": Out(1),
            "preload_full": In(1), "preload_start": Out(1),
            "option": Out(geometry.option_bits), "room": In(1), "reserve": Out(1),
            "drain_start": Out(1), "load_start": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        array, interleave = self.array, self.geometry.parameters.interleave
        # From the decision to the token: the preload buffer needs so much to play its first word.
        delay = PRELOAD_LATENCY - array.load_delay
        drain, load, loaded = Signal(name="drain"), Signal(name="load"), Signal(name="loaded")
        pending = Signal()  # a tile is in the drain memories, or on its way there

        def guard(name: str, start: Signal, cycles: int) -> Signal:
            """High once ``cycles`` or more have passed since ``start``, and from reset on."""
            if cycles <= 1:
                return Mux(start, 0, 1) if cycles == 1 else Signal(init=1, name=name)
            count, over = Signal(range(cycles), name=name), Signal(init=1, name=f"{name}_over")
            with m.If(start):
                m.d.sync += [count.eq(cycles - 1), over.eq(0)]
            with m.Elif(~over):
                m.d.sync += [count.eq(count - 1), over.eq(count == 1)]
            return over

        settled = guard("settle", self.captured,
                        FEED_LATENCY + interleave - 1 + array.compute_latency - delay)
        spaced = guard("spacing", drain | load, array.token_cycles)
        feed = FEED_LATENCY + READY_LATENCY
        free = guard("capture", drain, max(1, delay + array.capture_spacing - feed))
        arrived = guard("arrival", load, max(1, delay + array.load_latency - feed))
        m.d.comb += [
            drain.eq(pending & settled & spaced & self.room),
            load.eq(self.preload_wanted & ~loaded & self.preload_full & spaced & (~pending | drain)),
            self.reserve.eq(drain),
            self.preload_start.eq(load),
            self.capture_ready.eq(~pending & free),
            self.preload_ready.eq(loaded & arrived),
        ]
        with m.If(self.captured):
            m.d.sync += [pending.eq(1), self.option.eq(self.captured_option)]
        with m.Elif(drain):
            m.d.sync += pending.eq(0)
        with m.If(load):
            m.d.sync += loaded.eq(1)
        with m.Elif(self.preload_taken):
            m.d.sync += loaded.eq(0)
        tokens = delayed(m, "tokens", Cat(drain, load), delay)
        m.d.comb += [self.drain_start.eq(tokens[0]), self.load_start.eq(tokens[1])]
        return m
