"""All proofs, room by room."""

from tests.prove import control, memory
from tests.prove.proof import Proof

PROOFS: tuple[Proof, ...] = (*memory.PROOFS, *control.PROOFS)
