"""All proofs, room by room."""

from tests.prove import memory
from tests.prove.proof import Proof

PROOFS: tuple[Proof, ...] = (*memory.PROOFS,)
