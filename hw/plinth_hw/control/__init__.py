"""What starts tasks and what the host sees of a die.

- :mod:`~plinth_hw.control.engine`: the seam of an engine: body, start, done, strobes.

A task, from memory to its end:

- :mod:`~plinth_hw.control.fetch`, :mod:`~plinth_hw.control.dispatch`: descriptors, checked and parted.
- :mod:`~plinth_hw.control.bases`: pointers of bodies become addresses.
- :mod:`~plinth_hw.control.queues`: bodies wait for their engine.
- :mod:`~plinth_hw.control.header_store`: headers, of tasks that wait and of tasks that run.
- :mod:`~plinth_hw.control.task_ring`: an engine's tasks in order, and the start of the next.
- :mod:`~plinth_hw.control.wait_poll`, with :mod:`~plinth_hw.control.update_counters`: whether its waits are met.
- :mod:`~plinth_hw.control.result_words`: what an engine says of a task for its record.
- :mod:`~plinth_hw.control.sequencer`: loads, starts and completes tasks through those four; answers inspections
  (:mod:`~plinth_hw.control.inspection`).
- :mod:`~plinth_hw.control.record`: records of tasks, to memory. :mod:`~plinth_hw.control.scheduler` joins all these.

The host:

- :mod:`~plinth_hw.control.registers`: the register file; :mod:`~plinth_hw.control.routes`: its route table.
- :mod:`~plinth_hw.control.window`: memory, 32 bits at a time.
- :mod:`~plinth_hw.control.counters`: performance counters; :mod:`~plinth_hw.control.errors`: sticky error and watchdog.
- :mod:`~plinth_hw.control.control`: all of it.
"""
