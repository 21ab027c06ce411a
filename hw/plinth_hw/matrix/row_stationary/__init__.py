"""Row-stationary machine: convolution rows in processing elements, psums down a chain of rows.

The engine, from a task's body to C in memory:

- :mod:`~plinth_hw.matrix.row_stationary.engine`: the blocks and what joins them;
  :mod:`~plinth_hw.matrix.row_stationary.jobs`: sizes, and what the blocks are told.
- :mod:`~plinth_hw.matrix.row_stationary.sequencer`: cuts tasks into rounds, once
  :mod:`~plinth_hw.matrix.row_stationary.limits` has found that the die can run them.
- :mod:`~plinth_hw.matrix.row_stationary.ifmaps`: streams of the map into two halves;
  :mod:`~plinth_hw.matrix.row_stationary.ifmap_feeder`: their lines onto the multicast bus.
- :mod:`~plinth_hw.matrix.row_stationary.filters`: filters of a row of the array after another.
- :mod:`~plinth_hw.matrix.row_stationary.psums`: the psum buffer, from which psums start and to which they return;
  :mod:`~plinth_hw.matrix.row_stationary.psum_memory`: between it and memory, in the order of
  :mod:`~plinth_hw.matrix.row_stationary.spans`.
- :mod:`~plinth_hw.matrix.row_stationary.useful`: counts the useful multiply-adds of a task.

The array:

- :mod:`~plinth_hw.matrix.row_stationary.interface`: what goes in and comes out;
  :mod:`~plinth_hw.matrix.row_stationary.array`: rows below each other.
- :mod:`~plinth_hw.matrix.row_stationary.head`: before row 0; :mod:`~plinth_hw.matrix.row_stationary.row`: the control
  of a row.
- :mod:`~plinth_hw.matrix.row_stationary.elements`: its PEs, each an
  :mod:`~plinth_hw.matrix.row_stationary.element`, or all as loops for simulation in
  :mod:`~plinth_hw.matrix.row_stationary.loops`.
"""
