"""``python -m tests.prove``: every proof with its twins, a table, and ``build/prove.json``."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from tests.prove.campaign import Result, run, runs
from tests.prove.harness import Start
from tests.prove.listing import NAME, listed
from tests.prove.proofs import PROOFS

from plinth.output import replace_tables, write_json
from plinth_hw.installation import output_root

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "verification.md"


def _table(results: Sequence[Result]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("proof", "claims", "how", "verdict", "any state", "twins found", "s"):
        table.add_column(heading, justify="right" if heading in ("claims", "twins found", "s") else "left")
    for proof in PROOFS:
        own = [result for result in results if result.proof is proof]
        if own:
            twins = [result for result in own if result.twin is not None]
            verdict, reset, never = (next((
                result.answer.verdict for result in own if result.twin is None and result.start is start),
                "not run" if proof.resets or start is Start.INITIAL else "no reset") for start in Start)
            table.add_row(proof.name, str(len(own[0].claims)), proof.how, verdict,
                          reset if never in ("fails", "not run", "no reset") else f"{reset}; without reset {never}",
                          f"{sum(result.right for result in twins)} of {len(proof.twins)}",
                          f"{sum(result.answer.seconds for result in own):.0f}")
    return table


@click.command()
@click.option("--only", metavar="TEXT", help="proofs with this in their name")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1), help="solvers at once")
@click.option("--list", "list_only", is_flag=True, help="write the list into docs/verification.md only")
def main(only: str | None, jobs: int, list_only: bool) -> None:
    """Prove what blocks promise, and find every broken twin of them."""
    console = Console()
    if list_only:
        replace_tables({_PAGE: {NAME: lambda old: listed(PROOFS)}})
        return
    chosen = [proof for proof in PROOFS if only is None or only in proof.name]
    if not chosen:
        console.print(f"error: no proof has {only!r} in its name; "
                      f"there are {', '.join(proof.name for proof in PROOFS)}", highlight=False, markup=False)
        sys.exit(2)
    results: list[Result] = []
    start, total, whole = time.monotonic(), sum(len(runs(proof)) for proof in chosen), False
    try:
        for result in run(chosen, output_root().resolve() / "prove", jobs):
            results.append(result)
            if not result.right:
                console.print(f"{result.name}: {result.answer.verdict}; see {result.answer.log}", highlight=False,
                              markup=False)
            left = (time.monotonic() - start) / len(results) * (total - len(results))
            console.print(f"{len(results)} of {total} runs, "
                          f"{sum(result.right for result in results)} as they should be, "
                          f"about {left:.0f} s left", highlight=False)
        whole = True
    except KeyboardInterrupt:
        console.print("interrupted: what follows is of the runs until then")
    console.print(_table(results))
    write_json(output_root() / "prove.json", {"whole": whole, "proofs": [{
        "name": result.proof.name, "how": result.proof.how, "start": result.start.value,
        "twin": result.twin and result.twin.claim,
        "claims": result.claims, "verdict": result.answer.verdict, "right": result.right,
        "seconds": round(result.answer.seconds, 1)}
        for result in results]})
    sys.exit(130 if not whole else 0 if all(result.right for result in results) else 1)


if __name__ == "__main__":
    main()
