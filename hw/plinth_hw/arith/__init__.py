"""Arithmetic: one operation a cycle, no stall, results bit for bit those of ``plinth_sim.golden``.

Floating point, from operands to result:

- :mod:`~plinth_hw.arith.multiplier`, on the product of :mod:`~plinth_hw.arith.significand`.
- :mod:`~plinth_hw.arith.adder`.
- :mod:`~plinth_hw.arith.convert`: from one format to another.
- :mod:`~plinth_hw.arith.common`: shifts, counts and the packing of results; :mod:`~plinth_hw.arith.carry`: sums of
  words in the form that the target makes best use of. All units use both.

Fixed point:

- :mod:`~plinth_hw.arith.fixed`: products, saturating sums, from and to floating point.

:mod:`~plinth_hw.arith.units` names the units of a format, for engines that take either;
:mod:`~plinth_hw.arith.reference` has the textbook units that these are measured against.
"""
