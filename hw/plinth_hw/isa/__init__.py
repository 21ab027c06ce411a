"""The contract that hardware and software share. Plain data: nothing here needs Amaranth.

``layout`` says what a layout of bits is, packs and unpacks it; ``formats`` are number formats, ``operations`` engines,
what they do and why a die stops, ``descriptors`` what all tasks begin with and records, ``matrix_bodies``,
``vector_body``, ``transfer_bodies`` and ``update_bodies`` the rest of them, ``tasks`` which is whose, ``registers`` the
register map, ``packets`` what of packets follows from them, ``limits`` what all these fields hold, ``parameters`` what
shapes a die, and the presets; ``machine`` and ``identity`` what a die tells of itself, ``window`` how a host reaches
its memory by registers, ``frames`` what goes over a serial line to a host bridge, ``register_map`` which registers one
die has, ``rdl`` the same as SystemRDL, ``comments`` what declarations say in words; ``winograd`` has the matrices and
lattices of tiles, ``codes`` what of tiles goes over links; ``row_stationary`` and ``functions`` hold what follows from
a row-stationary body, and the tables of the function unit.
RTL takes Amaranth's shapes of layouts and codes from ``plinth_hw.shapes``.
"""
