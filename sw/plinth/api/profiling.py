"""``plinth.profile``: what training costs on a device, and the local layers that it suits."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plinth import defaults
from plinth.api import arguments, html
from plinth.api.arguments import choice, integer, optional, real
from plinth.api.choices import die_of, preset_of
from plinth.api.objects import named
from plinth.api.objects import network as network_of
from plinth.api.progress import Progress, activity
from plinth.api.results import Result
from plinth.errors import UserError
from plinth.limits import MAXIMUM_BATCH, MAXIMUM_MEMORY_MIB
from plinth.network.network import Network
from plinth.output import check_ending
from plinth.profile.devices import device_name
from plinth.profile.job import ProfileJob, run_profile
from plinth.profile.profile import Profile, save_profile
from plinth.report.profile import cost_rows, kind_rows, profile_png

#: Largest clock in megahertz, and largest power in watts.
MOST_MHZ, MOST_WATTS = 100_000.0, 1_000_000.0


@dataclass(frozen=True, repr=False, eq=False)
class ProfileResult(Result):
    """The result of :func:`profile`.

    Attributes
    ----------
    profile : Profile
        ``costs`` (the coefficients of Deep3's Table 2), ``widths`` (S_L), ``network_sha256``, and what
        :class:`~plinth.profile.profile.Profile` has beside them.
    """

    profile: Profile

    def save(self, path: str | Path) -> None:
        """Write the profile's file, as ``.json``.

        Raises
        ------
        UserError
            If the path ends otherwise, or the file cannot be written.
        """
        place = arguments.path("path", path)
        check_ending("path", place, ".json")
        save_profile(place, self.profile)

    def _report(self) -> dict[str, Any]:
        return self.profile.to_data()

    def _line(self) -> str:
        error = self.profile.batch_error(fitted=False)
        checked = "" if error is None else f", batches off by {error:.1%} in the median"
        layers = "" if self.profile.widths is None else (
            f", layers of {self.profile.network}: {', '.join(map(str, self.profile.widths))}")
        return f"profile of {self.profile.device}{checked}{layers}"

    def _tables(self) -> list[str]:
        report = self.to_dict()
        return [html.table(kind_rows(report)[1:], kind_rows(report)[0]), html.table(cost_rows(report))]

    def _picture(self) -> bytes:
        return profile_png(self.to_dict())


def profile_job(device: str, network: Network | None, *, batch: int, metric: str, memory_bytes: int | None,
                machine: str | None, clock_mhz: float | None, watts: float | None) -> ProfileJob:
    """The complete job of a profile; machine and clock are of dies, where None is the default.

    Raises
    ------
    UserError
        If there is no such machine, or a host is given one or a clock.
    """
    if device_name(device).is_host:
        for name, value in (("machine", machine), ("clock_mhz", clock_mhz)):
            if value is not None:
                raise UserError(f"{name}={value} is of dies, and {device} is a host; leave it out")
    return ProfileJob(device=device, parameters=die_of(preset_of(machine or defaults.PROFILE_MACHINE, None)),
                      network=network, batch=batch, metric=metric, memory_bytes=memory_bytes,
                      clock_mhz=defaults.CLOCK_MHZ if clock_mhz is None else clock_mhz, watts=watts)


def profile(device: str = "numpy", network: str | Path | Network | None = None, *, batch: int | None = None,
            metric: str | None = None, memory: int | None = None, machine: str | None = None,
            clock_mhz: float | None = None, watts: float | None = None, progress: Progress = None) -> ProfileResult:
    """Measure what training costs on a device, and choose the hidden layers of a network that suit it.

    Parameters
    ----------
    device : str
        ``numpy``, ``mpi``, ``golden``, ``cosim`` or ``serial:PORT[@BAUD]``.
    network : str, Path, Network or None
        A network as :func:`plinth.network` takes it, whose local layers are chosen; None: of none.
    batch : int or None
        Samples of a batch of it. None: 128.
    metric : {"time", "energy", "energy-delay", "memory"} or None
        What layers are chosen by: memory, the widest that fit; others, those of least cost for each multiply-add among
        them. None: memory.
    memory : int or None
        Bytes that they are to fit, and that a die has. None: a host's cache as measured, block RAM, or 16 MiB.
    machine : str or None
        Machine of a die, or its preset in full. None: ``fpga``.
    clock_mhz : float or None
        Clock in MHz of dies whose cycles are counted. None: 100.
    watts : float or None
        Power of the device in W: nothing here measures one. None: there is no energy.
    progress : callable, True or None
        Told (done, total, text) of steps of the measurement; True: a bar on standard error.

    Raises
    ------
    UserError
        If an argument is not what it may be, the device cannot be had, or not even the narrowest layers fit.
    """
    job = profile_job(
        named("device", device), None if network is None else network_of(network),
        batch=integer("batch", defaults.BATCH if batch is None else batch, 1, MAXIMUM_BATCH),
        metric=choice("metric", defaults.METRIC if metric is None else metric, defaults.METRICS),
        memory_bytes=optional(integer, "memory", memory, 1, MAXIMUM_MEMORY_MIB << 20), machine=machine,
        clock_mhz=optional(real, "clock_mhz", clock_mhz, math.ulp(1.0), MOST_MHZ),
        watts=optional(real, "watts", watts, math.ulp(1.0), MOST_WATTS))
    with activity(progress, f"making {job.device} ready", "steps") as told:
        return ProfileResult(run_profile(job, told.begin, told.update))
