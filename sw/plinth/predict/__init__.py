"""Predict what a plan costs: words that are moved, and the time of a training step.

Times: ``work`` has what each kind of work takes on its engine, a record of :mod:`plinth.machine.record`, by the
formulas of :mod:`plinth.machine`, of which ``tasks`` (products, vector programs, copies), ``transforms``, ``codes`` and
``updates`` ask; ``host`` has the table of hosts. ``schedule`` walks through a step's tasks with them, on the
``engines`` of dies and the ``links`` between these; ``time`` estimates steps without tasks, for planners. Words:
``exact`` and ``published``, by name in ``models``.
"""
