"""Register slices on the channels of AXI4 and AXI4-Lite.

::

    master --AW, W, AR--> FIFO of two places, Storage.PINS --> slave
           <---B, R------ FIFO of two places, Storage.PINS <--

Every output on either side is that of a register: nothing passes through within a cycle (AMBA AXI, A3.1). READY is 0
in reset and a cycle longer. Latency: one cycle each way. Throughput: a transfer a cycle on each channel. VALID waits
for no READY, and READY for no VALID, so either side may wait for the other as AXI allows. Channels do not wait for each
other: while two transfers wait in the slice of AW, data of the burst behind them may pass.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from amaranth.hdl import Cat, Module, unsigned

from plinth_hw.lib.fifo import FIFO, Storage

#: Channels that a slave drives.
_ANSWERS = ("b", "r")


def slice_channels(m: Module, name: str, master: Any, slave: Any, fields: Mapping[str, Sequence[str]]) -> None:
    """Connect a master to a slave by register slices, submodules ``name_aw`` and so on.

    Parameters
    ----------
    m : Module
    name : str
    master, slave : interfaces
        The end of each that looks at the other: ``master.awvalid`` is driven by the master, ``slave.awvalid`` here.
    fields : mapping of str to sequence of str
        By channel, what goes with it beside VALID and READY, without the channel's letters; no more is connected.
    """
    for channel, carried in fields.items():
        source, sink = (slave, master) if channel in _ANSWERS else (master, slave)
        payloads = [Cat(getattr(end, f"{channel}{field}") for field in carried) for end in (source, sink)]
        m.submodules[f"{name}_{channel}"] = queue = FIFO(unsigned(len(payloads[0])), 2, Storage.PINS)
        m.d.comb += [
            queue.i.payload.eq(payloads[0]), queue.i.valid.eq(getattr(source, f"{channel}valid")),
            getattr(source, f"{channel}ready").eq(queue.i.ready),
            payloads[1].eq(queue.o.payload), getattr(sink, f"{channel}valid").eq(queue.o.valid),
            queue.o.ready.eq(getattr(sink, f"{channel}ready")),
        ]
