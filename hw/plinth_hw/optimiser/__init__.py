"""Optimiser: updates of fixed-point weights that keep state, or more than 16 bits.

In the order in which data pass: :mod:`~plinth_hw.optimiser.body`: operands of a task, checked;
:mod:`~plinth_hw.optimiser.walk`: requests for blocks of its vectors; :mod:`~plinth_hw.optimiser.beats`: beats to
words and back; :mod:`~plinth_hw.optimiser.update`: the update of a word, with its
:mod:`~plinth_hw.optimiser.inverse_root` and :mod:`~plinth_hw.optimiser.rounder`;
:mod:`~plinth_hw.optimiser.write_back`: new values to memory. :mod:`~plinth_hw.optimiser.engine` is all of them.
"""
