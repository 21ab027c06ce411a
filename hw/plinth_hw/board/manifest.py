"""What a bitstream is of: ``manifest.json`` beside it, which later commands check."""

import dataclasses
import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from plinth_hw.isa.parameters import DieParameters

FILE = "manifest.json"


class ManifestError(Exception):
    """A manifest is missing, is none, or is of something else; the message says what to do."""


def digest(text: str) -> str:
    """By which texts are told apart: the first 16 digits of SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def parameters_digest(parameters: DieParameters) -> str:
    """The same for dies of equal parameters, in every run."""
    fields = ((field.name, getattr(parameters, field.name)) for field in dataclasses.fields(parameters))
    return digest("\n".join(f"{name} {sorted(map(str, value)) if isinstance(value, frozenset) else value}"
                            for name, value in fields))


@dataclass(frozen=True)
class Manifest:
    """What a bitstream is of."""

    board: str
    preset: str
    #: Of the die's parameters, and of the Verilog between the board's pins.
    parameters: str
    verilog: str
    #: Clock of the die in Hz.
    clock_hz: float
    #: Bits a second of the serial line.
    baud: int
    #: Of placement.
    seed: int
    #: SHA-256 of the bitstream.
    bitstream: str

    def write(self, folder: Path) -> None:
        """Into a folder."""
        (folder / FILE).write_text(json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """From a folder.

        Raises
        ------
        ManifestError
            If there is none, or it is not one.
        """
        path = folder / FILE
        try:
            return cls(**json.loads(path.read_text()))
        except OSError as error:
            raise ManifestError(f"{path}: {error.strerror}; make the bitstream with make bitstream") from None
        except (ValueError, TypeError):
            raise ManifestError(f"{path} is no manifest of a bitstream; make it again with make bitstream") from None

    def check(self, bitstream: Path, parameters: DieParameters) -> None:
        """See that a bitstream is the one described, and of a die.

        Raises
        ------
        ManifestError
            If it is another, or of another preset or other parameters; the message names both.
        """
        if self.preset != parameters.name or self.parameters != parameters_digest(parameters):
            raise ManifestError(f"{bitstream} is of preset {self.preset} (parameters {self.parameters}), not of "
                                f"{parameters.name} ({parameters_digest(parameters)}); make that one with make "
                                f"bitstream BOARD={self.board} PRESET={parameters.name}")
        if hashlib.sha256(bitstream.read_bytes()).hexdigest() != self.bitstream:
            raise ManifestError(f"{bitstream} is not the bitstream that {FILE} beside it describes; make it again "
                                f"with make bitstream BOARD={self.board} PRESET={self.preset}")
