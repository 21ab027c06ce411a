"""``python -m tests.mutation``: a campaign, its survivors, and ``build/mutate.json``."""

import json
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from tests.mutation import campaign
from tests.mutation.campaign import Judged
from tests.mutation.rooms import ROOMS

from plinth.bench.row import BenchRow, keep_rows
from plinth.errors import UserError
from plinth.train.job import write_json
from plinth_hw.installation import output_root

_ROOT = Path(__file__).resolve().parents[2]


def share(judged: Sequence[Judged]) -> float:
    """Killed mutants over those that can be killed."""
    killed = sum(judgement.verdict == "killed" for judgement in judged)
    return killed / max(1, sum(judgement.verdict != "equivalent" for judgement in judged))


def _counts(judged: Sequence[Judged]) -> dict[str, int]:
    """Killed mutants, those of them that the tests of their room leave alive, survivors, and equivalent ones."""
    killed, survived, equivalent = (sum(judgement.verdict == verdict for judgement in judged)
                                    for verdict in ("killed", "survived", "equivalent"))
    late = sum(judgement.late for judgement in judged) - survived
    return {"killed": killed, "killed_late": late, "survived": survived, "equivalent": equivalent}


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def _place(judgement: Judged) -> str:
    reason = f" ({judgement.by})" if judgement.by else ""
    return f"{judgement.mutant.file}:{judgement.mutant.line} {judgement.mutant.function}{reason}\n{judgement.diff()}"


def _say_progress(console: Console, judged: Sequence[Judged], total: int, started: float) -> None:
    run = [judgement for judgement in judged if judgement.verdict != "equivalent"]
    killed = sum(judgement.verdict == "killed" for judgement in run)
    if judged[-1].verdict == "survived":
        console.print(f"Survived: {_place(judged[-1])}", highlight=False, markup=False, soft_wrap=True)
    left = (time.monotonic() - started) / max(1, len(run)) * (total - len(judged))
    console.print(f"{len(judged)} of {total} mutants, {killed} killed, {len(run) - killed} survived, "
                  f"about {_duration(left)} left", highlight=False)


def _table(judged: Sequence[Judged]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("room")
    for heading in ("mutants", "killed", "by the rest", "survived", "equivalent", "share", "s a mutant"):
        table.add_column(heading, justify="right")
    rooms = dict.fromkeys(judgement.room for judgement in judged)
    for name, group in [*((room, [judgement for judgement in judged if judgement.room == room]) for room in rooms),
                        ("all", judged)]:
        counts = _counts(group)
        run = counts["killed"] + counts["survived"]
        table.add_row(name, str(len(group)), *map(str, counts.values()), f"{share(group):.3f}",
                      f"{sum(judgement.seconds for judgement in group) / max(1, run):.1f}")
    return table


def _report(console: Console, judged: Sequence[Judged]) -> None:
    for verdict, title in (("equivalent", "Equivalent"), ("survived", "Survived")):
        for judgement in judged:
            if judgement.verdict == verdict:
                console.print(f"{title}: {_place(judgement)}", highlight=False, markup=False, soft_wrap=True)
    console.print(_table(judged))


def _row(judged: Sequence[Judged], seed: int) -> BenchRow:
    return BenchRow("mutants_killed", share(judged), "killed / mutants that are not equivalent", "tests",
                    {"seed": seed, **_counts(judged)})


@click.command()
@click.option("--seed", default=1, show_default=True, help="decides which mutants are drawn")
@click.option("--count", default=120, show_default=True, type=click.IntRange(1), help="mutants, over all rooms")
@click.option("--room", "rooms", multiple=True, type=click.Choice(list(ROOMS)), help="of these rooms; default: all")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1), help="mutants at once")
@click.option("--again", is_flag=True, help="only the survivors of the last campaign")
@click.option("--fresh", is_flag=True, help="judge all anew, and measure anew which tests enter what")
@click.option("--json", "as_json", is_flag=True, help="print what build/mutate.json holds")
def main(seed: int, count: int, rooms: tuple[str, ...], jobs: int, again: bool, fresh: bool, as_json: bool,
         ) -> None:
    """Apply random small mutants to the code, one at a time, and run the tests that should notice.

    Mutants that an earlier campaign has judged on the same code and tests, one that was interrupted or of other rooms,
    are not judged again."""
    console = Console(stderr=as_json)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    result, tree = output_root() / "mutate.json", campaign.tree_digest(_ROOT)
    judged: list[Judged] = []
    whole = False
    last = json.loads(result.read_text(encoding="utf-8")) if result.exists() else {"mutants": []}
    #: What was judged before on the same tree.
    kept = {campaign.data_key(mutant): mutant for mutant in last["mutants"] if mutant["verdict"] != "equivalent"
            } if last.get("tree") == tree and not fresh else {}

    def written() -> dict[str, Any]:
        """The results so far, on the disk as well."""
        own = {judgement.key for judgement in judged}
        data = {"seed": seed, "tree": tree, "whole": whole, "share": share(judged), "mutants": [
            *(judgement.to_data() for judgement in judged),
            *(mutant for key, mutant in kept.items() if key not in own)]}
        write_json(result, data)
        return data

    try:
        equivalents = campaign.read_equivalents()
        chosen = {name: room for name, room in ROOMS.items() if not rooms or name in rooms}
        if again:
            keys = {campaign.data_key(mutant) for mutant in last["mutants"] if mutant["verdict"] == "survived"}
            drawn = campaign.named(_ROOT, chosen, keys)
        else:
            drawn = campaign.chosen(_ROOT, chosen, seed, count, equivalents)
        for entry in campaign.unmatched(_ROOT, chosen, equivalents):
            console.print(f"equivalent.yaml: no mutant any more: {entry}", highlight=False, markup=False)
        judged += [Judged(name, mutant, "equivalent", equivalents[mutant.key])
                   for name, mutant in drawn if mutant.key in equivalents]
        cache = output_root() / "mutate" / "reach.json"
        if fresh:
            cache.unlink(missing_ok=True)
        started = time.monotonic()
        judged += [Judged.again(mutant, kept[mutant.key]) for _, mutant in drawn
                   if mutant.key in kept and mutant.key not in equivalents and not again]
        if judged:
            console.print(f"{len(judged)} of {len(drawn)} mutants are equivalent, or were judged before",
                          highlight=False)
        known = {judgement.key for judgement in judged}
        to_run = [(name, mutant) for name, mutant in drawn if mutant.key not in known]
        for judgement in campaign.run(_ROOT, chosen, to_run, jobs, cache,
                                      lambda text: console.print(text, highlight=False)):
            judged.append(judgement)
            written()
            _say_progress(console, judged, len(drawn), started)
        whole = True
    except KeyboardInterrupt:
        console.print("interrupted: what follows is of the mutants until then")
    except (UserError, RuntimeError) as error:
        console.print(f"error: {error}", highlight=False, markup=False)
        sys.exit(2)
    _report(console, judged)
    data = written()
    if whole and not again and not rooms:
        keep_rows(output_root() / "bench.json", [_row(judged, seed)])
    if as_json:
        click.echo(json.dumps(data, indent=1))
    sys.exit(0 if whole else 130)


if __name__ == "__main__":
    main()
