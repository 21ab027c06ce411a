"""Devices by their names, as a command line says them, and the memory that local networks are to fit there."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from plinth import defaults
from plinth.driver.line import BAUD
from plinth.errors import UserError
from plinth.files.documents import nearest
from plinth.profile.batches import BenchDevice
from plinth.profile.die_device import cosim_die, golden_die, serial_die
from plinth.profile.networks import DIE, HOST, SizeBounds
from plinth.profile.numpy_device import NumpyDevice
from plinth.profile.profile import Profile
from plinth.profile.ranks import RankDevice
from plinth_hw.isa.parameters import DieParameters

#: Devices that are hosts, and those that are dies in this process; others are boards behind ports.
NUMPY, MPI = HOSTS = "numpy", "mpi"
GOLDEN, COSIM = DIES = "golden", "cosim"
_SERIAL = re.compile(r"serial:([^@]+)(?:@([1-9][0-9]{1,7}))?")


@dataclass(frozen=True)
class DeviceName:
    """A device as it was asked for.

    Attributes
    ----------
    kind : str
        Of :data:`HOSTS`, :data:`DIES`, or ``serial``.
    port, baud
        Of a board.
    """

    kind: str
    port: str = ""
    baud: int = BAUD

    @property
    def is_host(self) -> bool:
        """Whether it is a host, which has a cache that can be measured."""
        return self.kind in HOSTS

    @property
    def bounds(self) -> SizeBounds:
        """Sizes of the networks that it is measured by."""
        return HOST if self.is_host else DIE


def device_name(text: str) -> DeviceName:
    """A device by its name: ``numpy``, ``mpi``, ``golden``, ``cosim`` or ``serial:PORT[@BAUD]``.

    Raises
    ------
    UserError
        If there is none of this name.
    """
    if text in (*HOSTS, *DIES):
        return DeviceName(text)
    match = _SERIAL.fullmatch(text)
    if not match:
        raise UserError(f"device {text[:64]!r} is none of {', '.join((*HOSTS, *DIES))} and serial:PORT[@BAUD]; "
                        f"{nearest(text, (*HOSTS, *DIES))}")
    return DeviceName("serial", match[1], int(match[2] or BAUD))


@contextmanager
def opened_device(name: DeviceName, parameters: DieParameters, memory_words: int, clock_mhz: float = defaults.CLOCK_MHZ
                  ) -> Iterator[BenchDevice]:
    """The device, as long as it is measured; hosts have no use for the parameters and memory of a die.

    Raises
    ------
    UserError
        If a tool of the co-simulation is missing, or there is no MPI.
    LineError
        If a port cannot be opened, or there is no host bridge behind it.
    """
    if name.is_host:
        yield NumpyDevice() if name.kind == NUMPY else RankDevice()
        return
    memory_words = min(memory_words, parameters.most_memory_words)
    if name.kind == GOLDEN:
        die = golden_die(parameters, memory_words)
    elif name.kind == COSIM:
        die = cosim_die(parameters, memory_words, clock_mhz)
    else:
        die = serial_die(parameters, memory_words, clock_mhz, name.port, name.baud)
    try:
        yield die
    finally:
        die.close()


def memory_limit(profile: Profile, parameters: DieParameters, memory_words: int, limit_bytes: int | None) -> int:
    """Bytes that local networks are to fit: those that were given, the cache of a host as it was measured, or as the
    system says where no rate falls, or the memory of a die.

    Raises
    ------
    UserError
        If nothing tells of a host's cache.
    """
    if limit_bytes is not None:
        return limit_bytes
    if profile.cache is None:
        return min(memory_words, parameters.most_memory_words) * parameters.word_bytes
    found = profile.cache.knee_bytes or max(profile.stated_caches.values(), default=0)
    if not found:
        raise UserError("no rate of this machine falls with the working set, and the system tells of no cache; give "
                        "memory=")
    return found
