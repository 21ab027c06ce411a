"""A profile as the command and the library ask for it: the device by name, measured, and the layers of a network."""

from collections.abc import Callable
from dataclasses import dataclass

from plinth import defaults
from plinth.network.network import Network
from plinth.profile.devices import device_name, memory_limit, opened_device
from plinth.profile.measure import check_metric, measured, with_local
from plinth.profile.networks import SizeBounds
from plinth.profile.profile import Profile
from plinth.profile.widest import hidden_layers
from plinth.profile.works import batch_works
from plinth_hw.isa.parameters import DieParameters


@dataclass(frozen=True, kw_only=True)
class ProfileJob:
    """What somebody asks for.

    Attributes
    ----------
    device : str
        As :func:`~plinth.profile.devices.device_name` takes it.
    parameters : DieParameters
        Of a die.
    network : Network or None
        Whose local layers are chosen.
    batch : int
        Samples of a batch of that network.
    metric : str
        Of :data:`~plinth.profile.profile.METRICS`.
    memory_bytes : int or None
        What local layers are to fit, and what a die has; None: a host's cache as measured, block RAM, or
        :data:`plinth.defaults.MEMORY_MIB`.
    clock_mhz : float
        Of dies whose cycles are counted.
    watts : float or None
        Power of the device.
    bounds : SizeBounds or None
        Sizes of the networks that are measured; None: those of hosts or dies, and of the network.
    """

    device: str
    parameters: DieParameters
    network: Network | None = None
    batch: int = defaults.BATCH
    metric: str = defaults.METRIC
    memory_bytes: int | None = None
    clock_mhz: float = defaults.CLOCK_MHZ
    watts: float | None = None
    bounds: SizeBounds | None = None

    @property
    def memory_words(self) -> int:
        """Words of a die's memory, if it is not all on the chip."""
        return (self.memory_bytes or defaults.MEMORY_MIB << 20) // self.parameters.word_bytes


def run_profile(job: ProfileJob, begin: Callable[[str], object] = lambda what: None,
                progress: Callable[[int, int, str], object] = lambda done, total, what: None) -> Profile:
    """Measure a device, and choose the layers of a network.

    Parameters
    ----------
    job : ProfileJob
    begin : callable
        Called with what is begun.
    progress : callable
        Called with how much of that is done, of how much, and of what.

    Raises
    ------
    UserError
        For whatever the user can mend: before anything is measured, where that tells.
    """
    name, network = device_name(job.device), job.network
    check_metric(job.metric, job.watts)
    bounds = job.bounds or name.bounds
    if network is not None:
        hidden_layers(network)
        batch_works(network, job.batch)
        bounds = job.bounds or bounds.covering(network, job.batch)
    with opened_device(name, job.parameters, job.memory_words, job.clock_mhz) as device:
        begin(f"measuring {job.device}")
        profile = measured(device, bounds, network=network, batch=job.batch, watts=job.watts, with_cache=name.is_host,
                           progress=progress)
        if network is None:
            return profile
        begin(f"choosing layers of {network.name}")
        limit = memory_limit(profile, job.parameters, job.memory_words, job.memory_bytes)
        return with_local(profile, device, network, job.batch, metric=job.metric, limit_bytes=limit)
