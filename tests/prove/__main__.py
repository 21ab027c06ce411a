"""``python -m tests.prove``: every proof with its twins, a table, and ``build/prove.json``."""

import sys
import time

import click
from rich.console import Console
from rich.table import Table
from tests.prove.campaign import Result, run
from tests.prove.proofs import PROOFS

from plinth.training.job import write_json
from plinth_sim.rtl.verilator import build_root


def _table(results: list[Result]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("proof", "claims", "how", "holds", "twins found", "s"):
        table.add_column(heading, justify="left" if heading in ("proof", "how", "holds") else "right")
    for proof in PROOFS:
        own = [one for one in results if one.proof is proof]
        found = sum(one.twin is not None and one.right for one in own)
        for one in own:
            if one.twin is None:
                how = f"{proof.cycles} cycles after reset" if proof.bounded else f"induction over {proof.cycles}"
                table.add_row(proof.name, str(len(one.claims)), how, one.answer.verdict,
                              f"{found} of {len(proof.twins)}", f"{sum(each.answer.seconds for each in own):.0f}")
    return table


@click.command()
@click.option("--only", help="proofs whose name has this in it")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1), help="solvers at once")
def main(only: str | None, jobs: int) -> None:
    """Prove what blocks promise, and find their broken twins."""
    console, results, start = Console(), [], time.monotonic()
    chosen = [proof for proof in PROOFS if only is None or only in proof.name]
    total = sum(1 + len(proof.twins) for proof in chosen)
    for one in run(chosen, build_root() / "prove", jobs):
        results.append(one)
        what = one.proof.name + ("" if one.twin is None else f", twin {one.proof.twins.index(one.twin)}: {one.twin.claim}")
        if not one.right:
            console.print(f"{what}: {one.answer.verdict}; see {one.answer.log}", highlight=False, markup=False)
        left = (time.monotonic() - start) / len(results) * (total - len(results))
        console.print(f"{len(results)} of {total}, about {left:.0f} s left", highlight=False)
    console.print(_table(results))
    write_json(build_root() / "prove.json", {"proofs": [{
        "name": one.proof.name, "claim": one.twin and one.twin.claim, "claims": one.claims,
        "verdict": one.answer.verdict, "right": one.right, "seconds": round(one.answer.seconds, 1)} for one in results]})
    sys.exit(0 if all(one.right for one in results) else 1)


if __name__ == "__main__":
    main()
