"""The list of proofs in ``docs/verification.md``."""

from collections.abc import Sequence

from tests.prove.proof import Proof

#: Name of the list on its page.
NAME = "proofs"


def listed(proofs: Sequence[Proof]) -> list[str]:
    """Lines of a table of all proofs with their claims, and of what they come to."""
    lines = ["| proof | of | claims | how | reset | twins |", "| --- | --- | --- | --- | --- | ---: |"]
    counts = {False: 0, True: 0}
    for proof in proofs:
        harness = proof.harness()
        harness.rtlil()
        claims = harness.claims
        counts[proof.bounded] += len(claims)
        lines.append(f"| {proof.name} | `{proof.module}` | {'; '.join(claims)} | {proof.how} "
                     f"| {'from any state' if proof.resets else 'none'} | {len(proof.twins)} |")
    return [*lines, "", f"{counts[False]} claims without bound, {counts[True]} with one; "
                        f"{sum(len(proof.twins) for proof in proofs)} broken twins."]
