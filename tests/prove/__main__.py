"""``python -m tests.prove``: every proof with its twins, a table, and ``build/prove.json``."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from tests.prove.campaign import Result, run
from tests.prove.listing import NAME, listed
from tests.prove.proofs import PROOFS

from plinth.output import replace_tables, write_json
from plinth_hw.installation import output_root

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "verification.md"


def _table(results: Sequence[Result]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("proof", "claims", "how", "verdict", "twins found", "s"):
        table.add_column(heading, justify="left" if heading in ("proof", "how", "verdict") else "right")
    for proof in PROOFS:
        own = [one for one in results if one.proof is proof]
        if own:
            twins = [one for one in own if one.twin is not None]
            verdict = next((one.answer.verdict for one in own if one.twin is None), "not run")
            table.add_row(proof.name, str(len(own[0].claims)), proof.how, verdict,
                          f"{sum(one.right for one in twins)} of {len(proof.twins)}",
                          f"{sum(one.answer.seconds for one in own):.0f}")
    return table


def _name(one: Result) -> str:
    return one.proof.name + ("" if one.twin is None else f", twin {one.proof.twins.index(one.twin)} ({one.twin.claim})")


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
        console.print(f"error: no proof has {only!r} in its name; there are {', '.join(one.name for one in PROOFS)}",
                      highlight=False, markup=False)
        sys.exit(2)
    results: list[Result] = []
    start, total, whole = time.monotonic(), sum(1 + len(proof.twins) for proof in chosen), False
    try:
        for one in run(chosen, output_root().resolve() / "prove", jobs):
            results.append(one)
            if not one.right:
                console.print(f"{_name(one)}: {one.answer.verdict}; see {one.answer.log}", highlight=False,
                              markup=False)
            left = (time.monotonic() - start) / len(results) * (total - len(results))
            console.print(f"{len(results)} of {total} runs, {sum(one.right for one in results)} as they should be, "
                          f"about {left:.0f} s left", highlight=False)
        whole = True
    except KeyboardInterrupt:
        console.print("interrupted: what follows is of the runs until then")
    console.print(_table(results))
    write_json(output_root() / "prove.json", {"whole": whole, "proofs": [{
        "name": one.proof.name, "how": one.proof.how, "twin": one.twin and one.twin.claim, "claims": one.claims,
        "verdict": one.answer.verdict, "right": one.right, "seconds": round(one.answer.seconds, 1)}
        for one in results]})
    sys.exit(130 if not whole else 0 if all(one.right for one in results) else 1)


if __name__ == "__main__":
    main()
