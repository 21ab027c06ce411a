"""The serial line of a co-simulated die as a port for the host's driver, in simulated time."""

from plinth_sim.rtl.cosim import CosimArray

#: Cycles between looks at the line.
SLICE_CYCLES = 200


class SimulatedPort:
    """A port as ``plinth.driver.line.Port``: time passes while the host waits for bytes.

    Parameters
    ----------
    array : CosimArray
        Dies with host bridges.
    die : int
    cycles_per_second : int
        What the host takes for a second.
    """

    def __init__(self, array: CosimArray, die: int = 0, *, cycles_per_second: int = 100_000_000) -> None:
        self.name = f"die {die}"
        self.byte_seconds = float(array.cycles_per_byte / cycles_per_second)
        self._array, self._die, self._second = array, die, cycles_per_second

    def write(self, line: bytes) -> None:
        """Send bytes."""
        self._array.send_bytes(self._die, line)

    def read(self, seconds: float) -> bytes:
        """Bytes that have come; waits so long for the first of them."""
        left = int(seconds * self._second)
        while not (received := self._array.take_bytes(self._die)) and left > 0:
            self._array.run(SLICE_CYCLES)
            left -= SLICE_CYCLES
        return received

    def close(self) -> None:
        """The simulation stays."""
