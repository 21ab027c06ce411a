"""Runs proofs and their twins."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from tests.prove.proof import Proof, Twin
from tests.prove.solver import Answer, solve


@dataclass(frozen=True)
class Result:
    """Of a proof, or of one of its twins."""

    proof: Proof
    twin: Twin | None
    #: Claims that the harness makes.
    claims: tuple[str, ...]
    answer: Answer

    @property
    def right(self) -> bool:
        """A proof must hold, a twin must fail."""
        return self.answer.verdict == ("holds" if self.twin is None else "fails")


def judge(proof: Proof, twin: Twin | None, root: Path) -> Result:
    """One run.

    Raises
    ------
    ValueError
        If a claim has no twin, or a twin names no claim or no line of the block.
    """
    harness = proof.harness(twin)
    named = {broken.claim for broken in proof.twins}
    if named != set(harness.claims):
        raise ValueError(f"{proof.name}: claims {sorted(harness.claims)}, twins of {sorted(named)}")
    name = proof.name if twin is None else f"{proof.name}-{proof.twins.index(twin)}"
    answer = solve(harness.rtlil(), root / name, proof.cycles if twin is None else twin.cycles,
                   bounded=proof.bounded or twin is not None, vacuous=twin is not None,
                   mapped=proof.mapped and twin is not None)
    return Result(proof, twin, tuple(harness.claims), answer)


def run(proofs: Sequence[Proof], root: Path, jobs: int) -> Iterator[Result]:
    """All proofs with their twins, ``jobs`` at once, each as it is done."""
    work = [(proof, twin) for proof in proofs for twin in (None, *proof.twins)]
    with ThreadPoolExecutor(jobs) as pool:
        try:
            for future in as_completed([pool.submit(judge, proof, twin, root) for proof, twin in work]):
                yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
