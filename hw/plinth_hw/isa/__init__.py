"""The contract that hardware and software share. Plain data: nothing here needs Amaranth.

``layout`` says what a layout of bits is, packs and unpacks it; ``formats`` are number formats, ``tasks`` descriptors,
records and codes, ``registers`` the register map, ``packets`` what of packets follows from them, ``limits`` what all
these fields hold, ``parameters`` what shapes a die, and the presets;
``row_stationary`` and ``functions`` hold what follows from a row-stationary body, and the tables of the function unit.
RTL takes Amaranth's shapes of layouts and codes from ``plinth_hw.shapes``.
"""
