"""Commands that split a network, simulate its step, and compute papers anew: `plan`, `simulate`, `reproduce`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from plinth import defaults, limits
from plinth.cli.group import cli, new_console, print_json
from plinth.cli.names import COST_NAMES, PAPERS
from plinth.cli.options import (
    array_options,
    file_of,
    model_option,
    open_network,
    planner_option,
    predict_options,
    shares_of,
    tile_options,
    update_options,
)
from plinth.errors import UserError, about, one_line
from plinth.names import COPY_NAMES
from plinth_hw.terminal.activity import Activity
from plinth_hw.terminal.options import Folder, InputFile, IntegerRange, Name, OutputFile, RealRange, UnboundedInteger

if TYPE_CHECKING:
    from plinth.network.network import Network
    from plinth.plan.plan import Plan
    from plinth.step.step import Step


def _touched(texts: tuple[str, ...], network: Network) -> Any:
    """``0.03``, ``table=0.03`` or a file of samples as planners take it."""
    if not texts:
        return None
    if len(texts) == 1 and texts[0].endswith(".npz"):
        from plinth.train.data import load_data

        dataset = load_data(Path(texts[0]), network)
        if dataset.train_x.dtype.kind not in "iu":
            raise UserError(f"--touched {texts[0]}: network {network.name!r} has no embedding, whose row numbers its "
                            "samples could be; leave it out")
        return dataset.train_x
    shares: dict[str, float] = {}
    for text in texts:
        layer, _, share = text.rpartition("=")
        if layer in shares:
            raise UserError(f"--touched {text!r}: {f'layer {layer!r}' if layer else 'a share of all tables'} has one "
                            "already; give one")
        try:
            shares[layer] = float(share)
        except ValueError:
            raise UserError(f"--touched {text!r} is no share, layer and share as table=0.03, or one .npz file of "
                            "samples") from None
    if "" in shares and len(texts) > 1:
        raise UserError("--touched is one share of all tables, or one of each, as table=0.03, not both")
    return shares.get("", shares)


@cli.command()
@click.argument("network", type=Name(), default=defaults.NETWORK)
@array_options
@planner_option
@model_option
@click.option("--batch", type=IntegerRange(1, limits.MAXIMUM_BATCH), default=defaults.BATCH, show_default=True)
@click.option("--parts", type=InputFile(),
              help="a .yaml file with lists of parts, by layer: docs/partition.md")
@tile_options
@predict_options
@update_options
@click.option("--copies", type=click.Choice(COPY_NAMES), help="how copies of embeddings' tables are kept equal; "
              "default: rings, by planner parallax auto")
@click.option("--touched", multiple=True, metavar="SHARE|LAYER=SHARE|FILE",
              help="share of a table's rows that one die's samples touch in a step, of all tables or of one, or a .npz "
              "file of samples of which it is measured; default: as many as they may")
@click.option("--tolerance", type=RealRange(0, 1), help="with copies auto: share of a step's time by which a table's "
              "way has to make it shorter than an earlier one of rings, gathered, servers; default: 0")
@click.option("--dense-from", type=RealRange(0, 1), help="share of touched rows from which a table is taken for dense, "
              "and goes round rings; default: never")
@click.option("--micro-batches", type=IntegerRange(1, limits.MAXIMUM_BATCH), help="in how many parts, one behind the "
              "other, planner pipeline lets the batch go; default: as many as make the step shortest")
@click.option("--out", type=OutputFile(), help="write the plan, .yaml or .json")
@click.option("--picture", type=OutputFile(), help="draw the plan as a PNG")
@click.option("--json", "as_json", is_flag=True, help="print the result as JSON, nothing else")
def plan(network: str, array_name: str | None, dies: int | None, machine: str | None, number_format: str | None,
         planner: str | None, model: str | None, batch: int, parts: Path | None, update: str | None,
         wide: bool | None, stochastic: bool, winograd: str | None, weights: str | None,
         predict: str | None, shares: str | None, copies: str | None, touched: tuple[str, ...],
         tolerance: float | None, dense_from: float | None, micro_batches: int | None, out: Path | None,
         picture: Path | None, as_json: bool) -> None:
    """Split NETWORK (a name or a file; default: digits-mlp) over an array, layer by layer and level by level."""
    from plinth.api.choices import array_for, with_settings
    from plinth.api.splits import planned
    from plinth.array.array import ARRAYS
    from plinth.network.zoo import NETWORKS
    from plinth.output import check_ending, check_places, check_writable
    from plinth.partition.graph import from_network
    from plinth.plan.lists_file import load_lists
    from plinth.report.plan import draw_plan, plan_report, show_plan

    check_ending("--out", out, ".yaml", ".json")
    check_ending("--picture", picture, ".png")
    check_places({"--out": out, "--picture": picture},
                 {"NETWORK": file_of(network, NETWORKS), "--array": file_of(array_name, ARRAYS), "--parts": parts})
    check_writable(out, picture)
    definition = with_settings(open_network(network), winograd, weights, predict, shares_of(shares))
    array = array_for(definition, array_name, dies, machine, number_format)
    with Activity(f"planning {definition.name} on {array.name}", "steps predicted") as activity:
        planning = planned(definition, array, planner=planner, model=model, batch=batch, update=update, wide=wide,
                           stochastic=stochastic, progress=activity.update,
                           lists=None if parts is None else load_lists(parts, from_network(definition)),
                           copies=copies, touched=_touched(touched, definition), tolerance=tolerance,
                           dense_from=dense_from, micro_batches=micro_batches)
        if out is not None:
            from plinth.plan.plan_file import save_plan

            save_plan(out, planning.plan)
        if picture is not None:
            activity.begin(f"drawing {picture}")
            draw_plan(picture, planning)
    for note in planning.notes:
        click.echo(one_line(f"note: {note}"), err=True)
    if as_json:
        print_json(plan_report(planning))
    else:
        show_plan(new_console(), planning)
        for what, path in (("plan", out), ("picture", picture)):
            if path is not None:
                click.echo(f"{what}: {path}")


def _slow(texts: tuple[str, ...]) -> dict[int, float]:
    """``3=1.5`` as a die and how many times longer it takes."""
    factors: dict[int, float] = {}
    for text in texts:
        match = re.fullmatch(r"([0-9]{1,4})=([0-9]{1,6}(?:\.[0-9]{1,6})?)", text)
        if not match or not 0.001 <= float(match[2]) <= 100_000 or int(match[1]) in factors:
            raise UserError(f"--slow {text!r} is not a die, once, and a factor from 0.001 to 100000, as 3=1.5")
        factors[int(match[1])] = float(match[2])
    return factors


@cli.command()
@click.argument("network", type=Name(), required=False)
@array_options
@click.option("--plan", "plan_file", type=InputFile(),
              help="a plan that `plinth plan --out` wrote, instead of a planner")
@planner_option
@model_option
@click.option("--batch", type=IntegerRange(1, limits.MAXIMUM_BATCH), help=f"default: {defaults.BATCH}")
@tile_options
@predict_options
@update_options
@click.option("--cost", type=click.Choice(COST_NAMES), default="die", show_default=True,
              help="the array's dies by their engines' formulas, or HyPar's as its paper states them")
@click.option("--slow", "slow", multiple=True, metavar="DIE=FACTOR",
              help="this die's tasks take longer by a factor; may be given several times")
@click.option("--trace", "trace_file", type=OutputFile(),
              help="write the step for Perfetto, .json")
@click.option("--picture", type=OutputFile(), help="draw the step as a PNG")
@click.option("--json", "as_json", is_flag=True, help="print the result as JSON, nothing else")
def simulate(network: str | None, array_name: str | None, dies: int | None, machine: str | None,
             number_format: str | None, plan_file: Path | None, planner: str | None, model: str | None,
             batch: int | None, update: str | None, wide: bool | None, stochastic: bool, cost: str,
             slow: tuple[str, ...], winograd: str | None, weights: str | None, predict: str | None, shares: str | None,
             trace_file: Path | None, picture: Path | None, as_json: bool) -> None:
    """Simulate a training step of NETWORK (a name, a file, or a plan's file; default: digits-mlp): time, energy, where
    they go."""
    from plinth.api.choices import array_for, network_or_plan, said_by_plan, with_settings
    from plinth.api.steps import array_of_use, simulated, split
    from plinth.array.array import ARRAYS
    from plinth.network.zoo import NETWORKS
    from plinth.output import check_ending, check_places, check_writable
    from plinth.report.simulation import draw_simulation, show_simulation, simulation_report
    from plinth.simulate import step

    check_ending("--trace", trace_file, ".json")
    check_ending("--picture", picture, ".png")
    check_places({"--trace": trace_file, "--picture": picture},
                 {"NETWORK": file_of(network, NETWORKS), "--array": file_of(array_name, ARRAYS), "--plan": plan_file})
    check_writable(trace_file, picture)
    factors = _slow(slow)
    network, plan_file = network_or_plan(network, plan_file)
    if plan_file is not None:
        said_by_plan(planner=planner, model=model, batch=batch, winograd=winograd, weights=weights, predict=predict,
                     shares=shares)
        if update is not None or wide is not None or stochastic:
            raise UserError("--update, --wide and --stochastic are said by the plan; leave them out, or plan again "
                            "with `plinth plan`")
        plan_ = step.load(plan_file, network)
        array, built = array_of_use(plan_, str(plan_file), array_name, dies, machine, number_format)
    else:
        definition = with_settings(open_network(network or defaults.NETWORK), winograd, weights, predict,
                                   shares_of(shares))
        array = array_for(definition, array_name, dies, machine, number_format)
        with Activity(f"planning {definition.name} on {array.name}"):
            plan_, built = split(definition, array, planner=planner, model=model, batch=batch, update=update, wide=wide,
                                 stochastic=stochastic)
    with Activity(f"simulating {plan_.network} on {array.name}", "tasks") as activity:
        simulation = simulated(plan_, array, built, cost=cost, slow=factors, progress=activity.update)
        if trace_file is not None:
            activity.begin(f"writing {trace_file}")
            step.write_trace(trace_file, simulation)
        if picture is not None:
            activity.begin(f"drawing {picture}")
            draw_simulation(picture, simulation)
    if as_json:
        print_json(simulation_report(simulation))
    else:
        show_simulation(new_console(), simulation)
        for what, path in (("trace", trace_file), ("picture", picture)):
            if path is not None:
                click.echo(f"{what}: {path}")


@cli.command()
@click.argument("plan_file", metavar="PLAN", type=InputFile())
@click.option("--die", type=UnboundedInteger(), help="the tasks of this die, in place of operations")
@click.option("--against", type=InputFile(), help="the plan of another step, of the same network: where they differ; "
              "exit code 1 if they do")
@click.option("--json", "as_json", is_flag=True, help="print the result as JSON, nothing else")
def step(plan_file: Path, die: int | None, against: Path | None, as_json: bool) -> None:
    """Show what dies do in a training step of PLAN, a file that `plinth plan --out` wrote."""
    from plinth.plan.plan_file import load_plan
    from plinth.report import step as steps

    def built(path: Path) -> tuple[Plan, Step]:
        plan_ = load_plan(path)
        steps.check_die(plan_, path, die)
        with Activity(f"building the step of {path}"), about(path):
            return plan_, steps.step_of_plan(plan_)

    first = built(plan_file)
    if against is None:
        with Activity("counting its tasks"):
            report = steps.step_report(*first, die)
        if as_json:
            print_json(report)
        else:
            steps.show_step(new_console(), report)
        return
    second = built(against)
    with Activity("comparing"):
        report = steps.compared(first, second, die)
    if as_json:
        print_json(report)
    else:
        steps.show_compared(new_console(), report, (str(plan_file), str(against)))
    if not report["equal"]:
        sys.exit(1)


@cli.command()
@click.argument("paper", type=click.Choice(PAPERS))
@click.option("--figure", "figures", multiple=True, metavar="KEY",
              help="only this figure, or table by its name; may be given several times")
@click.option("--out", type=Folder(), help="folder of the pictures")
@click.option("--json", "as_json", is_flag=True, help="print the figures as JSON, nothing else")
def reproduce(paper: str, figures: tuple[str, ...], out: Path | None, as_json: bool) -> None:
    """Compute the numbers of PAPER anew and print them beside its own, each with what agreement is worth."""
    from plinth.reproduce import tables
    from plinth.reproduce.paper import paper as published
    from plinth_hw.installation import output_root

    publication = published(paper)
    total = len(set(figures)) or len(publication.tables)
    minutes = publication.seconds(figures) / 60
    about = f", about {minutes:.0f} min where nothing is kept yet" if minutes >= 1 else ""
    text = f"computing tables of {paper}{about}"
    with Activity(text, "tables") as activity:
        if about and not activity.bar:
            activity.say(text)
        computed_tables = publication.computed(figures, lambda key, tables, values: activity.update(
            tables, total, f"{key}, {values} values"))
        activity.begin("drawing its pictures")
        pictures = publication.draw(out or output_root() / "reproduce" / paper, computed_tables)
    if as_json:
        print_json(publication.report(computed_tables))
    else:
        tables.show(new_console(), publication, computed_tables)
        for picture in pictures:
            click.echo(f"picture: {picture}")
