"""Options of `train` that ask for local networks, and what they do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from plinth.cli.flags import with_flags
from plinth.cli.group import new_console, print_json
from plinth.errors import UserError
from plinth_hw.terminal.activity import Activity
from plinth_hw.terminal.options import InputFile, IntegerRange, Name, RealRange

if TYPE_CHECKING:
    from plinth.local.job import LocalOptions, MakeLinks

#: Options that local networks alone have, by parameter.
OPTIONS = ("local", "kernels", "push", "merge", "draw", "clock", "profiles", "accuracy",
           "patience", "baseline", "beta", "validate")
#: Of the others those that they have as well.
COMMON = ("network", "data", "scale", "epochs", "batch", "rate", "update", "epsilon", "seed", "memory_mib", "save",
          "out", "as_json", *OPTIONS)


def local_options(command: Any) -> Any:
    """Add the options of local networks to `train`."""
    for option in (
            click.option("--local", type=Name(), metavar="WIDTHS",
                         help="train by local networks of these units of each layer, input and output among them "
                         "(64,128,64,10), of a share of all (1/2), or of what fits each kernel (auto)"),
            click.option("--kernels", type=Name(), metavar="[COUNT*]DEVICE[/SLOWER],..",
                         help="with --local: numpy, a preset (co-simulated), golden:PRESET or "
                         "serial:PRESET:PORT[@BAUD], each so many times; default: 2*numpy"),
            click.option("--push", metavar="BATCHES",
                         help="with --local: batches of a set, or corrected, printed or measured: how they are chosen; "
                         "default: corrected"),
            click.option("--merge", type=click.Choice(["add", "divide", "auto"]),
                         help="with --local: add differences, or divide them by the kernels that hold a weight; "
                         "default: auto, by how many are expected to"),
            click.option("--draw", type=click.Choice(["uniform", "balanced"]),
                         help="with --local: units of each set drawn at random, or each as often; default: uniform"),
            click.option("--clock", type=click.Choice(["real", "virtual"]),
                         help="with --local: kernels go on at their own pace, or, repeatable, in virtual time; "
                         "default: real"),
            click.option("--profile", "profiles", type=InputFile(), multiple=True, metavar="FILE",
                         help="with --local: what `plinth profile --out` wrote of a kernel's device, for widths and "
                         "times"),
            click.option("--accuracy", type=RealRange(0, 1), metavar="SHARE",
                         help="with --local: end once so much of the test samples is right"),
            click.option("--patience", type=RealRange(0, 1e6, min_open=True), metavar="SECONDS",
                         help="with --local: leave out a kernel that does not answer for so long; default: 300"),
            click.option("--validate", type=IntegerRange(1), metavar="SETS",
                         help="with --local: validate the test samples after so many answers; default: as many as "
                         "there are kernels"),
            click.option("--beta", type=RealRange(0, 1), metavar="SHARE",
                         help="with --local: project samples, so that at most so much of each is left out; default: "
                         "0.1, where WIDTHS have fewer inputs than the network"),
            click.option("--baseline/--no-baseline", default=None,
                         help="with --local: train the whole network synchronously as well, to compare; default: yes")):
        command = option(command)
    return command


def without_local(options: dict[str, Any]) -> dict[str, Any]:
    """Options of `train` but for those that local networks alone have."""
    return {name: value for name, value in options.items() if name not in OPTIONS}


def check_local(options: dict[str, Any], typed: set[str]) -> None:
    """Refuse options of the running command that are of local networks without --local, and others with it; ``typed``
    are those on its command line.

    Raises
    ------
    UserError
        With the first of them.
    """
    local = options.get("local") is not None
    flags = {parameter.name: parameter.opts[0] for parameter in click.get_current_context().command.params}
    for name in sorted(typed):
        flag = flags[name]
        if not local and name in OPTIONS:
            raise UserError(f"{flag} is of local networks; give --local as well, or leave it out")
        if local and name not in COMMON:
            raise UserError(f"{flag} is not of training by local networks; leave it, or --local, out")


def local_job(options: dict[str, Any]) -> tuple[LocalOptions, bool]:
    """The run by local networks that options of `train` ask for, and whether its report is printed as JSON.

    Raises
    ------
    UserError
        If they do not fit each other, or files cannot be read or written.
    """
    from plinth.api.local import local_job as job
    from plinth.cli.options import file_of, open_network
    from plinth.network.zoo import NETWORKS
    from plinth.output import check_places
    from plinth.train.datasets import DATASETS
    from plinth.train.folder import RunFolder
    from plinth.train.scale import parse_scale
    from plinth_hw.installation import output_root

    network, out = options["network"] or "digits-tanh", options["out"] or output_root() / "local"
    folder = RunFolder(out)
    files: dict[str, Path | None] = {"NETWORK": file_of(network, NETWORKS), "--data": file_of(options["data"],
                                                                                           DATASETS)}
    places: dict[str, Path | None] = {f"{path.name} of --out": path for path in folder.outputs()}
    files |= {f"--profile {path}": path for path in options["profiles"]}
    check_places(places | {"--save": options["save"]}, files)
    made = job(open_network(network), options["data"], scale=parse_scale(options["scale"]), out=folder, **{
        name: options[name] for name in COMMON if name not in ("network", "data", "scale", "out", "as_json")})
    return made, options["as_json"]


def train_locally(job: LocalOptions, as_json: bool, links: MakeLinks | None = None) -> None:
    """Train by local networks, as :func:`local_job` has it: with progress, report and picture.

    Raises
    ------
    UserError
        For whatever the user can mend; and if all kernels were lost, of which there is a report.
    """
    from plinth.local.job import in_threads, run_local
    from plinth.report.local import draw_local, local_table
    from plinth.train.folder import PICTURE, REPORT

    assert job.out is not None
    with job.out, _NamingFlags(f"setting up {job.network.name}") as activity:
        run = run_local(job, activity, links or in_threads)
        activity.begin(f"writing the report to {job.out.path}")
        draw_local(job.out.path / PICTURE, run.report)
    if as_json:
        print_json(run.report)
    else:
        console = new_console()
        local_table(console, run.report)
        console.print(f"report: {job.out.path / REPORT}, picture: {job.out.path / PICTURE}", soft_wrap=True,
                      markup=False)
    if run.report["ended"] == "lost":
        raise UserError(f"all kernels were lost: {run.report['incidents'][-1]} (see {job.out.path / REPORT})")
    if run.report["ended"] == "interrupted":
        raise KeyboardInterrupt


class _NamingFlags(Activity):
    """An activity whose lines name options as the command line has them."""

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        super().say(with_flags(text))
