"""All proofs, room by room."""

from tests.prove import control, crossbar, lib, memory
from tests.prove.proof import Proof

PROOFS: tuple[Proof, ...] = (*lib.PROOFS, *crossbar.PROOFS, *memory.PROOFS, *control.PROOFS)
