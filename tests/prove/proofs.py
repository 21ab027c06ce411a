"""All proofs, room by room."""

from tests.prove import control, crossbar, lib, link, memory, router, waits
from tests.prove.proof import Proof

PROOFS: tuple[Proof, ...] = (
    *lib.PROOFS, *crossbar.PROOFS, *memory.PROOFS, *control.PROOFS, *waits.PROOFS, *router.PROOFS, *link.PROOFS)
