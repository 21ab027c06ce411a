"""What a plan costs: words that are moved, and the time of a training step.

Times: ``work`` has what each kind of work takes on its engine, a record of ``record``, by the formulas in ``tasks``
(products by ``systolic`` or :mod:`plinth.machine`, vector programs by ``machine``, copies by ``copies``),
``transforms``, ``codes`` and ``updates``. ``schedule`` walks through a step's tasks with them, on the ``engines`` of
dies and the ``links`` between these; ``time`` estimates steps without tasks, for planners. Words: ``exact`` and
``published``, by name in ``models``.
"""
