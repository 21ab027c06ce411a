"""Between dies: the network, and the two engines that use it.

The network, from a link inwards:

- :mod:`~plinth_hw.comm.flit`: flits, packets, traffic classes, what a link is.
- :mod:`~plinth_hw.comm.router`: from link to link or to the die. For each input an
  :mod:`~plinth_hw.comm.input_buffer` and a choice of its class (:mod:`~plinth_hw.comm.router_input`); for all of them
  the :mod:`~plinth_hw.comm.route_lookup`, or, of dies with transforms, for each input its
  :mod:`~plinth_hw.comm.route_ahead`; for each output the choice of an input
  (:mod:`~plinth_hw.comm.router_output`).
- :mod:`~plinth_hw.comm.interface`: joins control and the engines to the router.
- :mod:`~plinth_hw.comm.link`: the link layer, between a port and wires that err: :mod:`~plinth_hw.comm.link_frame`,
  :mod:`~plinth_hw.comm.link_transmit`, :mod:`~plinth_hw.comm.link_receive`, :mod:`~plinth_hw.comm.link_credits`.

Collectives:

- :mod:`~plinth_hw.comm.collective`: the engine: tasks, groups, reduce blocks; :mod:`~plinth_hw.comm.tallies`: what
  these have sent, and how long they stood; :mod:`~plinth_hw.comm.route_setter`: its tasks that set routes.
- :mod:`~plinth_hw.comm.message`: the steps of a message; :mod:`~plinth_hw.comm.reduce_block` goes through them.
- :mod:`~plinth_hw.comm.prefetch`, :mod:`~plinth_hw.comm.reduce_lanes`, :mod:`~plinth_hw.comm.write_back`: a block's
  words from memory, their arithmetic, which all blocks share, and back.

Tiles:

- :mod:`~plinth_hw.comm.transfer`: the engine: tasks.
- :mod:`~plinth_hw.comm.tile_walk`: the walk over a tile, which cuts it into pieces.
- :mod:`~plinth_hw.comm.tile_read`, by way of :mod:`~plinth_hw.comm.run_reader`: from memory to flits, which
  :mod:`~plinth_hw.comm.align` makes of what is read.
- :mod:`~plinth_hw.comm.receive_path`: from flits, of this die or another, to memory, stored or added.
- :mod:`~plinth_hw.comm.flit_width`: between flits of the network and wider ones, of dies in which more words move a
  cycle.

Winograd tiles, of dies that have transforms:

- :mod:`~plinth_hw.comm.tile_blocks`: tasks; :mod:`~plinth_hw.comm.tile_stages`: from what is read to packets, by
  :mod:`~plinth_hw.comm.place_walk`, which knows where they lie.
- :mod:`~plinth_hw.comm.tile_transform`: a matrix each way, of blocks of flits; :mod:`~plinth_hw.comm.block_turn`:
  orders of a block; :mod:`~plinth_hw.comm.line_sums`: a matrix times lines.

Codes of their elements, of dies that have them:

- :mod:`~plinth_hw.comm.codes`: :mod:`~plinth_hw.comm.codes.stages`, by way of the :mod:`~plinth_hw.comm.codes.walk`,
  :mod:`~plinth_hw.comm.codes.run_code` and what reads, writes and cuts.
"""
