"""Commands that measure, and those that tell what there is: `bench`, `agreement`, `accuracy`, `doctor`, `list`, ..."""

from __future__ import annotations

import sys

import click

from plinth.cli.group import cli, new_console, print_json
from plinth.cli.names import ACCURACY_NAMES, BENCH_NAMES
from plinth_hw.terminal.activity import Activity


@cli.command(epilog=f"ROW is one of {', '.join(BENCH_NAMES)}.")
@click.option("--only", type=click.Choice(BENCH_NAMES), metavar="ROW", help="run one row")
@click.option("--json", "as_json", is_flag=True, help="print JSON, nothing else")
def bench(only: str | None, as_json: bool) -> None:
    """Measure utilisation and speed; rows go to bench.json in the build folder."""
    from plinth.backends import build_root
    from plinth.bench.run import run_benches, show

    with Activity("measuring", "rows") as activity:
        rows = run_benches(build_root() / "bench.json", only, activity)
    show(new_console(stderr=True), rows)
    if as_json:
        print_json(rows)


@cli.command()
@click.option("--only", default="", metavar="TEXT", help="steps whose [hold-outs/]network/preset/array contains this; "
              "or 'network', traffic alone; docs/agreement.md stays as it is")
@click.option("--json", "as_json", is_flag=True, help="print JSON, nothing else")
def agreement(only: str, as_json: bool) -> None:
    """Compare simulated and predicted with co-simulated cycles of steps; into docs/agreement.md."""
    from plinth.bench import agreement as steps
    from plinth.bench import network

    alone = only == network.TABLE
    with Activity("comparing steps") as activity:
        found = [] if alone else steps.measure(say=activity.say, only=only)
        traffic = network.measure(activity.say) if alone or not only else []
    if not only:
        steps.write_page(found)
        network.write_page(traffic)
    if as_json:
        print_json([row.to_data() for row in [*(steps.rows(found) if found else ()), *network.rows(traffic)]])
    else:
        from plinth_hw.terminal.table import print_markdown

        tables = [steps.table(found), steps.holdout_table(found)] if found else []
        print_markdown(new_console(), "\n\n".join([*tables, *([network.table(traffic)] if traffic else [])]))


@cli.command()
@click.option("--only", type=click.Choice(ACCURACY_NAMES), help="one row; docs/formats.md stays as it is")
@click.option("--seeds", type=click.IntRange(2, 1000), default=10, show_default=True, help="runs of each row")
@click.option("--json", "as_json", is_flag=True, help="print JSON, nothing else")
def accuracy(only: str | None, seeds: int, as_json: bool) -> None:
    """Train the digits in every number format on the golden model; into docs/formats.md."""
    from dataclasses import asdict

    from plinth.bench import accuracy as formats

    with Activity("training the digits") as activity:
        found = formats.measure((only,) if only else ACCURACY_NAMES, seeds, activity.say)
    if not only and seeds == formats.SEEDS:
        formats.write_page(found)
    if as_json:
        print_json([asdict(one) for one in found])
    else:
        from plinth_hw.terminal.table import print_markdown

        print_markdown(new_console(), formats.table(found))


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="print JSON, nothing else")
def doctor(as_json: bool) -> None:
    """Which tools were found, which version, and the command that mends what is missing."""
    from plinth import doctor as tools

    with Activity("looking for tools"):
        rows = tools.run()
    if as_json:
        print_json([row.to_data() for row in rows])
    else:
        tools.show(rows)
    if not all(row.found for row in rows if row.needed):
        sys.exit(2)


@cli.command("list")
@click.option("--json", "as_json", is_flag=True, help="print JSON, nothing else")
def show_list(as_json: bool) -> None:
    """Networks, arrays and presets that have names."""
    from plinth.report.listing import listing, show

    if as_json:
        print_json(listing())
    else:
        show(new_console())


@cli.command()
@click.argument("what", type=click.Choice(["network", "array", "plan"]))
def schema(what: str) -> None:
    """JSON Schema of the files that describe WHAT."""
    from plinth.model.array_file import array_schema
    from plinth.model.network_file import network_schema
    from plinth.plan.plan_file import plan_schema

    made = {"network": network_schema, "array": array_schema, "plan": plan_schema}[what]()
    print_json(made, indent=2)
