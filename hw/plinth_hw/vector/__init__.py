"""The vector engine: a task goes through three stages, and three tasks are under way.

::

    body --> BodyMemory --> load --> scratchpad, a half a task --> compute --> store

- :mod:`~plinth_hw.vector.engine`: the stages and what they share.
- :mod:`~plinth_hw.vector.body`: bodies, checked as they come (:mod:`~plinth_hw.vector.checks`), and read by all stages.
- :mod:`~plinth_hw.vector.load`, :mod:`~plinth_hw.vector.store`: regions between memory and scratchpad; with what both
  share in :mod:`~plinth_hw.vector.moves`.
- :mod:`~plinth_hw.vector.compute`: instructions one after another (:mod:`~plinth_hw.vector.instructions`), each group
  by group (:mod:`~plinth_hw.vector.groups`), operands in halves side by side (:mod:`~plinth_hw.vector.pairs`).
- :mod:`~plinth_hw.vector.lane`, with :mod:`~plinth_hw.vector.conversion`: the arithmetic of an element;
  :mod:`~plinth_hw.vector.function`, behind :mod:`~plinth_hw.vector.argument`: the one function unit.
"""
