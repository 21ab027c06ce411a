"""Dies whose registers and memories hold anything as power comes, as those of silicon without initial values do.

Verilog of Amaranth gives every register and memory an initial value. Without these, a simulator of two states that is
asked to starts with random bits, or with ones; one of four states with X.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

#: A register's initial value.
_REGISTER = re.compile(
    r"^( *reg (?:signed )?(?:\[[^\]]*\] )?(?:\\\S+ |[\w$]+)) *= *\d+'s?[hd][0-9a-f]+ *;$", re.MULTILINE)
#: A memory's contents.
_CONTENTS = re.compile(
    r"^ *initial begin\n(?: *(?P<memory>\\\S+ |[\w$]+)\[\d+\] = \d+'[hd][0-9a-f]+;\n)+ *end\n", re.MULTILINE)
_NOT_ZERO = re.compile(r"'[hd]0*[1-9a-f]")
_MODULE = re.compile(r"^module .*?^endmodule", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class PowerUp:
    """What registers and memories hold before the first reset.

    Raises
    ------
    ValueError
        If the seed is not from 1 to 2^31 - 1.
    """

    #: Verilator's flags for models that choose, each as it starts, what they start with.
    FLAGS: ClassVar = ("-O3", "--x-assign", "unique", "--x-initial", "unique", "--no-assert")

    #: Of random bits, others on each die; None: all bits are 1.
    seed: int | None = None

    @property
    def state(self) -> tuple[int, int]:
        """``randReset`` and ``randSeed`` of Verilator."""
        return (1, 0) if self.seed is None else (2, self.seed)

    def __post_init__(self) -> None:
        if self.seed is not None and not 0 < self.seed < 1 << 31:
            raise ValueError(f"Seed of a power-up state must be from 1 to {(1 << 31) - 1}, not {self.seed!r}")


def _module_without(text: str) -> str:
    def kept(match: re.Match[str]) -> str:
        # What is never written is a ROM, and made with its contents.
        written = re.search(rf"^ *{re.escape(match['memory'])}\[.*<=", text, re.MULTILINE)
        return "" if written else match[0]

    return _REGISTER.sub(r"\1;", _CONTENTS.sub(kept, text))


def without_zeros(verilog: Mapping[str, str]) -> dict[str, str]:
    """Verilog, file name to text, without contents of memories that are zeros, for simulators that begin with them."""
    return {name: _CONTENTS.sub(lambda contents: contents[0] if _NOT_ZERO.search(contents[0]) else "", text)
            for name, text in verilog.items()}


def without_initial_values(verilog: Mapping[str, str]) -> dict[str, str]:
    """A die's Verilog, file name to text, without the initial values of registers and of memories that are written."""
    return {name: _MODULE.sub(lambda module: _module_without(module[0]), text) for name, text in verilog.items()}
