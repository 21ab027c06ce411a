"""What starts tasks and what the host sees of a die.

- :mod:`~plinth_hw.control.engine`: the seam of an engine: body, start, done, strobes; :mod:`~plinth_hw.control.bases`
  resolves the pointers of a body.

A task, from memory to its end:

- :mod:`~plinth_hw.control.fetch`, :mod:`~plinth_hw.control.dispatch`: descriptors, checked and parted.
- :mod:`~plinth_hw.control.queues`: bodies wait for their engine.
- :mod:`~plinth_hw.control.sequencer`, with :mod:`~plinth_hw.control.update_counters`: waits, starts, completions.
- :mod:`~plinth_hw.control.record`: records of tasks, to memory. :mod:`~plinth_hw.control.scheduler` joins all these.

The host:

- :mod:`~plinth_hw.control.registers`: the register file; :mod:`~plinth_hw.control.routes`: its route table.
- :mod:`~plinth_hw.control.counters`: performance counters; :mod:`~plinth_hw.control.errors`: sticky error and watchdog.
- :mod:`~plinth_hw.control.control`: all of it.
"""
