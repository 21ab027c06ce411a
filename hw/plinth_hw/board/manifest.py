"""What a bitstream is of: ``manifest.json`` beside it, which later commands check."""

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from plinth_hw.isa.identity import parameters_digest
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.terminal.files import write_text

FILE = "manifest.json"
#: Name of the design in file names, the bitstream's among them.
NAME = "plinth"


class ManifestError(Exception):
    """A manifest is missing, is none, or is of something else; the message says what to do."""


@dataclass(frozen=True)
class Manifest:
    """What a bitstream is of.

    Raises
    ------
    TypeError
        If a value is of another type.
    ValueError
        If a digest is no hexadecimal number.
    """

    board: str
    preset: str
    #: What the die's registers PARAMETERS_DIGEST and VERILOG_DIGEST hold, as 8 hexadecimal digits.
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

    def __post_init__(self) -> None:
        wrong = [field.name for field in fields(self) if type(getattr(self, field.name)) is not field.type]
        if wrong:
            raise TypeError(f"{', '.join(wrong)} of another type")
        for digest in (self.parameters, self.verilog):
            int(digest, 16)

    @classmethod
    def of(cls, bitstream: Path, board: str, parameters: DieParameters, verilog_digest: int, clock_hz: float, baud: int,
           seed: int) -> "Manifest":
        """Of a bitstream that has just been made."""
        return cls(board, parameters.name, f"{parameters_digest(parameters):08x}", f"{verilog_digest:08x}", clock_hz,
                   baud, seed, hashlib.sha256(bitstream.read_bytes()).hexdigest())

    @property
    def verilog_digest(self) -> int:
        """What the die's register VERILOG_DIGEST holds."""
        return int(self.verilog, 16)

    def write(self, folder: Path) -> None:
        """Into a folder."""
        write_text(folder / FILE, json.dumps(asdict(self), indent=2) + "\n")

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
        except (ValueError, TypeError, RecursionError):
            raise ManifestError(f"{path} is no manifest of a bitstream; make it again with make bitstream") from None

    def check(self, folder: Path, parameters: DieParameters) -> None:
        """See that the bitstream in a folder is the one described, and of a die.

        Raises
        ------
        ManifestError
            If it is another, or of other parameters; the message names both. Presets of equal parameters are one.
        """
        bitstream, wanted = folder / f"{NAME}.bit", f"{parameters_digest(parameters):08x}"
        if self.parameters != wanted:
            raise ManifestError(f"{bitstream} is of preset {self.preset} (parameters {self.parameters}), not of "
                                f"{parameters.name} ({wanted}); make that one with make bitstream BOARD={self.board} "
                                f"PRESET={parameters.name}, or take preset {self.preset}")
        try:
            digest = hashlib.sha256(bitstream.read_bytes()).hexdigest()
        except OSError as error:
            raise ManifestError(f"{bitstream}: {error.strerror}; make the bitstream with make bitstream "
                                f"BOARD={self.board} PRESET={self.preset}") from None
        if digest != self.bitstream:
            raise ManifestError(f"{bitstream} (SHA-256 {digest[:8]}) is not the bitstream that {FILE} beside it "
                                f"describes ({self.bitstream[:8]}); make it again with make bitstream "
                                f"BOARD={self.board} PRESET={self.preset}")
