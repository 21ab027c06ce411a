"""Runs proofs and their twins."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from tests.prove.harness import Start
from tests.prove.proof import Proof, Twin
from tests.prove.solver import Answer, solve


@dataclass(frozen=True)
class Result:
    """Of a proof, or of one of its twins."""

    proof: Proof
    twin: Twin | None
    start: Start
    #: Claims that the harness makes.
    claims: tuple[str, ...]
    answer: Answer

    @property
    def right(self) -> bool:
        """A proof must hold, a twin must fail, and so must what is never reset."""
        fails = self.twin is not None or self.start is Start.NEVER
        return self.answer.verdict == ("fails" if fails else "holds")

    @property
    def name(self) -> str:
        """Of the run."""
        if self.twin is not None:
            return f"{self.proof.name}, twin {self.proof.twins.index(self.twin)} ({self.twin.claim})"
        return self.proof.name + ("" if self.start is Start.INITIAL else f", {self.start.value}")


def judge(proof: Proof, twin: Twin | None, root: Path, start: Start = Start.INITIAL) -> Result:
    """One run. Through a reset from any state claims and invariants hold for as many cycles as the induction is long,
    whose step is the same from there on.

    Raises
    ------
    ValueError
        If a claim has no twin, or a twin names no claim or no line of the block.
    """
    harness = proof.harness(twin, start)
    named = {broken.claim for broken in proof.twins}
    if named != set(harness.claims):
        raise ValueError(f"{proof.name}: claims {sorted(harness.claims)}, twins of {sorted(named)}")
    name = f"{proof.name}-{start.name.lower()}" if twin is None else f"{proof.name}-{proof.twins.index(twin)}"
    answer = solve(harness.rtlil(), root / name,
                   (proof.cycles if twin is None else twin.cycles) + (start is not Start.INITIAL),
                   bounded=proof.bounded or twin is not None or start is not Start.INITIAL, vacuous=twin is not None,
                   mapped=proof.mapped and twin is not None)
    return Result(proof, twin, start, tuple(harness.claims), answer)


def runs(proof: Proof) -> list[tuple[Twin | None, Start]]:
    """What is run of a proof."""
    starts = list(Start) if proof.resets else [Start.INITIAL]
    return [*((None, start) for start in starts), *((twin, Start.INITIAL) for twin in proof.twins)]


def run(proofs: Sequence[Proof], root: Path, jobs: int) -> Iterator[Result]:
    """All proofs with their twins, ``jobs`` at once, each as it is done."""
    work = [(proof, *how) for proof in proofs for how in runs(proof)]
    with ThreadPoolExecutor(jobs) as pool:
        try:
            for future in as_completed([pool.submit(judge, proof, twin, root, start)
                                        for proof, twin, start in work]):
                yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
