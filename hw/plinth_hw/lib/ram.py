"""Attributes of memories, for synthesis: ``Memory(..., attrs=LUT_RAM | UNCHECKED)``."""

#: Words of a look-up-table RAM.
SECTION = 16
#: The memory lies in look-up-table RAM.
LUT_RAM = {"ram_style": "distributed"}
#: The memory lies in block RAM.
BLOCK_RAM = {"ram_style": "block"}
#: Words up to which flip-flops take less than look-up-table RAM, which has 16.
FEW = 2
#: The memory is made of flip-flops.
FLIP_FLOPS = {"ram_style": "registers"}
#: No word is read in the cycle in which it is written, so synthesis need not see to it that the old one is.
UNCHECKED = {"no_rw_check": 1}
