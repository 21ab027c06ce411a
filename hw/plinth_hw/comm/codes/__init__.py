"""Codes of tile elements (:mod:`plinth_hw.isa.codes`): strings of bits of runs of words, and the words again.

- :mod:`~plinth_hw.comm.codes.stages`: a task's stages; its :mod:`~plinth_hw.comm.codes.walk`.
- :mod:`~plinth_hw.comm.codes.run_code`: runs to strings and back. First parts by
  :mod:`~plinth_hw.comm.codes.block_encode` and :mod:`~plinth_hw.comm.codes.block_decode`, next ones by
  :mod:`~plinth_hw.comm.codes.element_encode` and :mod:`~plinth_hw.comm.codes.element_decode`;
  :mod:`~plinth_hw.comm.codes.block`: blocks of a run; :mod:`~plinth_hw.comm.codes.bits`: fields and words. MPT's own
  code by :mod:`~plinth_hw.comm.codes.regions`. Skip code by :mod:`~plinth_hw.comm.codes.skip_code`;
  :mod:`~plinth_hw.comm.codes.mask_store`: its masks to memory.
- :mod:`~plinth_hw.comm.codes.string_write`, :mod:`~plinth_hw.comm.codes.string_read`: strings to packets and from
  memory; :mod:`~plinth_hw.comm.codes.row_cut`: runs to packets.
- :mod:`~plinth_hw.comm.codes.predict`: predictions, of the :mod:`~plinth_hw.comm.codes.ends` of fills, which
  :mod:`~plinth_hw.comm.codes.neurons` may be above 0, and :mod:`~plinth_hw.comm.codes.masks` of what these need;
  :mod:`~plinth_hw.comm.codes.window_walk`: its tasks, and their windows; :mod:`~plinth_hw.comm.codes.map_walk`: places
  of maps that are added.
"""
