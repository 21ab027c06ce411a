"""Parts that every room uses, one of each; below all others but the contract (:mod:`plinth_hw.isa`).

- :mod:`~plinth_hw.lib.fifo`: the stream FIFO, in look-up-table RAM, block RAM, or sections in a row.
- :mod:`~plinth_hw.lib.channels`: register slices of AXI channels.
- :mod:`~plinth_hw.lib.arbiter`: fixed priority and round robin.
- :mod:`~plinth_hw.lib.choice`: one of many values, by a one-hot condition (OR) or by its index (multiplexers).
- :mod:`~plinth_hw.lib.delay`: what was there some cycles before: in registers, in look-up-table RAM, skewed lanes.
- :mod:`~plinth_hw.lib.rotator`: lanes rotated by an amount.
- :mod:`~plinth_hw.lib.count`: counters that go up and down or round, or are only compared; set bits; widths of indices.
- :mod:`~plinth_hw.lib.crc`: cyclic redundancy check.
- :mod:`~plinth_hw.lib.ram`: attributes of memories for synthesis.
"""
