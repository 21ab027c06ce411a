"""Matrix engines: the systolic one here, the other in :mod:`~plinth_hw.matrix.row_stationary`.

A task on the systolic machine, from its body to C in memory:

- :mod:`~plinth_hw.matrix.engine`: the blocks and what joins them; :mod:`~plinth_hw.matrix.geometry`: sizes and jobs.
- :mod:`~plinth_hw.matrix.sequencer`: cuts tasks into panels and tiles, and hands out their jobs.
- :mod:`~plinth_hw.matrix.operands`: panels of A and B into two halves each; :mod:`~plinth_hw.matrix.window`: the
  addresses of their rows, and of those of C.
- :mod:`~plinth_hw.matrix.feeder`: a slot of operands a cycle into the array.
- :mod:`~plinth_hw.matrix.systolic`, of :mod:`~plinth_hw.matrix.pe`: the array; as loops for simulation in
  :mod:`~plinth_hw.matrix.systolic_loops`, on numbers as :mod:`~plinth_hw.matrix.reals`;
  :mod:`~plinth_hw.matrix.chain`: what its chain carries of sums.
- :mod:`~plinth_hw.matrix.tokens`: when the array's drain memories are filled, emptied and loaded.
- :mod:`~plinth_hw.matrix.preload`: C of tiles that accumulate; :mod:`~plinth_hw.matrix.output`: tiles that are done, to
  memory.

Both machines: :mod:`~plinth_hw.matrix.conversion`: sums from and to memory's format; :mod:`~plinth_hw.matrix.ends`:
counts those at an end of it.
"""
