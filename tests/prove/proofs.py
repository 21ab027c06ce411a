"""All proofs, room by room."""

from tests.prove import control, lib, memory
from tests.prove.proof import Proof

PROOFS: tuple[Proof, ...] = (*lib.PROOFS, *memory.PROOFS, *control.PROOFS)
