"""Commands that measure, and those that tell or write what there is: `bench`, `agreement`, `doctor`, `verilog`, ..."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import click

from plinth.cli.group import cli, new_console, print_json
from plinth.cli.names import ACCURACY_NAMES, BENCH_NAMES, REPORT_NAMES
from plinth_hw.terminal.activity import Activity
from plinth_hw.terminal.options import IntegerRange, OutputFile


@cli.command(epilog=f"ROW is one of {', '.join(BENCH_NAMES)}.")
@click.option("--only", type=click.Choice(BENCH_NAMES), metavar="ROW", help="run one row")
@click.option("--json", "as_json", is_flag=True, help="print JSON, nothing else")
def bench(only: str | None, as_json: bool) -> None:
    """Measure utilisation and speed; rows go to bench.json in the build folder."""
    from plinth.bench.row import rows_report
    from plinth.bench.run import run_benches, show
    from plinth_hw.installation import output_root

    with Activity("measuring", "rows") as activity:
        rows = run_benches(output_root() / "bench.json", only, activity)
    show(new_console(stderr=True), rows)
    if as_json:
        print_json(rows_report(rows))


@cli.command()
@click.option("--only", default="", metavar="TEXT", help="steps whose [hold-outs/]network/preset/array contains this; "
              "or 'network', traffic alone, or 'models', of the simulator; no page is written without --out, but in a "
              "checkout first measurements of hold-outs are kept")
@click.option("--tasks", is_flag=True, help="compare the tasks of these steps by name instead: where simulated cycles "
              "differ most from co-simulated ones; no page is written")
@click.option("--out", type=OutputFile(), help="page whose tables are replaced, or that is made; default: "
              "docs/agreement.md of a checkout, or agreement.md in the build folder")
@click.option("--json", "as_json", is_flag=True, help="print JSON, nothing else")
def agreement(only: str, tasks: bool, out: Path | None, as_json: bool) -> None:
    """Compare simulated and predicted with co-simulated cycles of steps; the tables go into a page."""
    from plinth.bench import agreement as steps
    from plinth.bench import models, network
    from plinth.bench.page import default_page, write_tables
    from plinth.bench.row import rows_report
    from plinth.output import check_writable

    if tasks:
        _compare_tasks(only, out, as_json)
        return
    page = out if out or only else default_page(steps.PAGE)
    check_writable(page)
    with Activity("comparing steps") as activity:
        agreements = [] if only in (network.TABLE, models.TABLE) else steps.measure(say=activity.say, only=only)
        both = [] if only == network.TABLE else models.measure(activity.say, "" if only == models.TABLE else only)
        traffic = network.measure(activity.say) if only in ("", network.TABLE) else []
    tables = {**(steps.tables(agreements) if agreements else {}), **(models.tables(both) if both else {}),
              **(network.tables(traffic) if traffic else {})}
    if page is not None:
        write_tables(page, tables)
    if as_json:
        print_json(rows_report(row.to_data() for row in [
            *(steps.rows(agreements) if agreements else ()), *models.rows(both), *network.rows(traffic)]))
    else:
        from plinth_hw.terminal.table import print_markdown

        print_markdown(new_console(), "\n\n".join(tables.values()))
        _name_page(page)


def _compare_tasks(only: str, out: Path | None, as_json: bool) -> None:
    from plinth.bench import models, network, tasks
    from plinth.bench.row import rows_report
    from plinth.errors import UserError
    from plinth_hw.terminal.table import print_markdown

    if out is not None or only in (network.TABLE, models.TABLE):
        raise UserError("--tasks compares tasks of steps, and writes no page: leave out --out, and give a step's "
                        "network/preset/array by --only")
    with Activity("comparing tasks") as activity:
        differences = tasks.measure(activity.say, only)
    if as_json:
        print_json(rows_report(row.to_data() for row in tasks.rows(differences)))
    else:
        print_markdown(new_console(), tasks.table(differences))


@cli.command()
@click.option("--only", type=click.Choice(ACCURACY_NAMES), help="one row; no page is written without --out")
@click.option("--seeds", type=IntegerRange(2, 1000), default=10, show_default=True,
              help="runs of each row; of another number, no page is written without --out")
@click.option("--out", type=OutputFile(), help="page whose table is replaced, or that is made; default: "
              "docs/formats.md of a checkout, or formats.md in the build folder")
@click.option("--json", "as_json", is_flag=True, help="print JSON, nothing else")
def accuracy(only: str | None, seeds: int, out: Path | None, as_json: bool) -> None:
    """Train the digits in every number format on the golden model; the table goes into a page."""
    from plinth.bench import accuracy as formats
    from plinth.bench.page import default_page, write_tables
    from plinth.files.reports import report
    from plinth.output import check_writable

    page = out if out or only or seeds != formats.SEEDS else default_page(formats.PAGE)
    check_writable(page)
    with Activity("training the digits") as activity:
        accuracies = formats.measure((only,) if only else ACCURACY_NAMES, seeds, activity.say)
    if page is not None:
        write_tables(page, formats.tables(accuracies))
    if as_json:
        print_json(report("accuracy", {"formats": [accuracy.to_data() for accuracy in accuracies]}))
    else:
        from plinth_hw.terminal.table import print_markdown

        print_markdown(new_console(), formats.table(accuracies))
        _name_page(page)


def _name_page(page: Path | None) -> None:
    if page is not None:
        click.echo(f"page: {page}")


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="print JSON, nothing else")
def doctor(as_json: bool) -> None:
    """Which tools were found, which version, and the command that mends what is missing."""
    from plinth import doctor as tools
    from plinth.files.reports import report

    with Activity("looking for tools"):
        rows = tools.run()
    if as_json:
        print_json(report("doctor", {"tools": [row.to_data() for row in rows]}))
    else:
        tools.show(rows)
    if not all(row.found for row in rows if row.needed):
        sys.exit(2)


@cli.command("list")
@click.option("--json", "as_json", is_flag=True, help="print JSON, nothing else")
def show_list(as_json: bool) -> None:
    """Networks, arrays and presets that have names."""
    from plinth.files.reports import report
    from plinth.report.listing import listing, show

    if as_json:
        print_json(report("list", listing()))
    else:
        show(new_console())


#: What has a schema.
_SCHEMAS = ("network", "array", "plan", *(f"report-{kind}" for kind in REPORT_NAMES))


@cli.command(epilog=f"WHAT is one of {', '.join(_SCHEMAS)}.")
@click.argument("what", type=click.Choice(_SCHEMAS), metavar="WHAT")
def schema(what: str) -> None:
    """JSON Schema of the files that describe WHAT, or of a kind of report."""
    from plinth.array.file import array_schema
    from plinth.files.reports import REPORTS, report_schema
    from plinth.network.file import network_schema
    from plinth.plan.plan_file import plan_schema

    schemas = {"network": network_schema, "array": array_schema, "plan": plan_schema} | {
        f"report-{kind}": partial(report_schema, kind) for kind in REPORTS}
    print_json(schemas[what](), indent=2)
