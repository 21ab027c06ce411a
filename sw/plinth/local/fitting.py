"""S_L of each kernel: the widest layers that fit it, by its profile, or by its memory (Deep3, section 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from plinth.errors import UserError
from plinth.local.devices import NUMPY, KernelDevice
from plinth.network.local import widths_of
from plinth.network.network import Network
from plinth.profile.cache import cache_sweep, stated_caches
from plinth.profile.costs import KernelCosts
from plinth.profile.die_device import golden_die
from plinth.profile.numpy_device import NumpyDevice
from plinth.profile.profile import Profile
from plinth.profile.widest import widest
from plinth.train.settings import network_digest

#: Devices of profiles by those of kernels: what a profile calls a board says its port.
PROFILED = {"numpy": ("numpy", "mpi"), "golden": ("golden",), "cosim": ("cosim",), "serial": ()}


def profile_of(device: KernelDevice, profiles: Sequence[Profile]) -> Profile | None:
    """The profile of a kernel's device: of its kind, and of a die of its preset; None: there is none."""
    for profile in profiles:
        kinds = PROFILED[device.kind]
        board = device.kind == "serial" and profile.device.partition("@")[0] == f"serial:{device.port}"
        if (board or profile.device in kinds) and profile.conditions.get("preset", device.preset) == device.preset:
            return profile
    return None


def check_used(devices: Sequence[KernelDevice], profiles: Mapping[Path, Profile]) -> None:
    """Refuse a profile that no kernel has, and one of a device that another file is of.

    Raises
    ------
    UserError
        Naming its file and its device.
    """
    own = {device: profile_of(device, list(profiles.values())) for device in devices}
    for place, profile in profiles.items():
        if any(profile is used for used in own.values()):
            continue
        named = " ".join([profile.device, *([text] if (text := profile.conditions.get("preset", "")) else [])])
        if any(profile_of(device, [profile]) for device in devices):
            raise UserError(f"{place}: a profile of {named}, whose kernels have that of another file; give one of them")
        raise UserError(f"{place}: a profile of {named} is of no kernel; leave it out, or add a kernel of that device")


def costs_of(device: KernelDevice, profiles: Sequence[Profile], network: Network, batch: int, usual: KernelCosts
             ) -> KernelCosts:
    """What batches and messages of a kernel cost: by its profile, for local networks of a network; messages by those of
    MPI ranks and of boards alone, whose transfers cross a link; else as usual."""
    profile = profile_of(device, profiles)
    if profile is None:
        return usual
    found = profile.costs_for(network, batch)
    linked = profile.device == "mpi" or profile.device.startswith("serial:")
    return found if linked else replace(found, net_seconds=usual.net_seconds, word_seconds=usual.word_seconds)


def fitting_widths(network: Network, device: KernelDevice, profiles: Sequence[Profile], *, batch: int, memory_mib: int
                   ) -> tuple[int, ...]:
    """S_L of a kernel, input and output among them: that of its profile, if it is of this network and batch; else the
    widest hidden layers that fit the memory of its die, or this host's cache, as the profile has it or as measured.

    Raises
    ------
    UserError
        If not even the narrowest fit, or a layer has no width that could be another.
    """
    profile, whole = profile_of(device, profiles), widths_of(network)
    if profile is not None and profile.local is not None and profile.batch == batch and (
            profile.network_sha256 == network_digest(network)):
        return (whole[0], *profile.local.widths, whole[-1])
    try:
        if device.kind == NUMPY:
            chosen = widest(network, _cache_bytes(profile), lambda some: NumpyDevice().memory_bytes(some, batch))
        else:
            parameters = device.parameters if device.kind != "serial" else device.parameters.with_window
            words = min((memory_mib << 20) // parameters.word_bytes, parameters.most_memory_words)
            # Memory is what lowering says, of a die of whatever kind.
            die = golden_die(parameters, 1)
            chosen = widest(network, words * parameters.word_bytes, lambda some: die.memory_bytes(some, batch),
                            step=die.channel_step)
    except UserError as error:
        raise UserError(f"kernel {replace(device, slower=1.0).name}: {error}") from None
    return (whole[0], *chosen.widths, whole[-1])


def _cache_bytes(profile: Profile | None) -> int:
    """This host's cache: the largest working set before the rate falls, or as the system says."""
    sweep = cache_sweep() if profile is None or profile.cache is None else profile.cache
    found = sweep.knee_bytes or max(stated_caches().values(), default=0)
    if not found:
        raise UserError("no rate of this machine falls with the working set, and the system tells of no cache; give "
                        "widths in place of local=auto")
    return found
