"""What a die is, as its registers tell, so that software does not drive another than it was planned for.

Two digests go with what single registers say. PARAMETERS_DIGEST is of all parameters that shape hardware, so software
knows it without the hardware: dies with equal ones do the same. VERILOG_DIGEST tells which text a die was made of; what
holds it is a module of its own, for no text contains its own digest, and the digest is of the text without that module
(:func:`plinth_hw.emit.verilog`).
"""

import hashlib
from collections.abc import Mapping
from dataclasses import fields

from plinth_hw.isa.formats import FP16, FP32, Fixed, Format
from plinth_hw.isa.layout import pack, unpack
from plinth_hw.isa.machine import ArraySize, Formats, Machine, MachineInfo, NumberFormat, Ports
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import SYSTOLIC, DieParameters
from plinth_hw.isa.registers import Register

#: The identity registers, side by side.
IDENTITY_REGISTERS = (Register.MACHINE, Register.FORMATS, Register.ARRAY, Register.PORTS, Register.ENGINES_PRESENT,
                      Register.BLOCK_RAM_WORDS, Register.PARAMETERS_DIGEST, Register.VERILOG_DIGEST)
#: What there is not unless a die asks for it: in no digest of dies that do not.
_ABSENT = {"transforms": (), "transfer_words": 0, "codes": False, "port_rates": False,
           "sets_routes": False}
#: Parameters that no hardware follows from but what a register holds after reset, which the driver writes.
_NO_HARDWARE = ("name", "memory_words_per_cycle", "link_rate")
_NAMES = {str(FP32): "FP32", str(FP16): "FP16"}


def text_digest(text: str) -> int:
    """The first 32 bits of the SHA-256 of a text."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)


def parameters_digest(parameters: DieParameters) -> int:
    """Value of PARAMETERS_DIGEST: of all that shapes hardware, a line for each parameter."""
    values = [(field.name, getattr(parameters, field.name)) for field in fields(parameters)
              if field.name not in _NO_HARDWARE and getattr(parameters, field.name) != _ABSENT.get(field.name)]
    # Sets have another order from run to run.
    lines = [f"{name} = {sorted(engine.name for engine in value) if isinstance(value, frozenset) else value}"
             for name, value in values]
    return text_digest("\n".join(lines))


def _format(fmt: Format) -> dict[str, int]:
    integer = fmt.integer_bits if isinstance(fmt, Fixed) else fmt.exponent_bits
    return {"fraction_bits": fmt.fraction_bits, "integer_bits": integer, "fixed": isinstance(fmt, Fixed)}


def identity(parameters: DieParameters, verilog_digest: int = 0) -> dict[Register, int]:
    """Values of a die's identity registers."""
    machine = Machine.SYSTOLIC if parameters.machine == SYSTOLIC else Machine.ROW_STATIONARY
    (info,) = pack(MachineInfo, {"machine": machine, "sums": _format(parameters.sum_format)})
    (formats,) = pack(Formats, {"memory": _format(parameters.memory_format),
                                "products": _format(parameters.multiply_format)})
    (array,) = pack(ArraySize, {"rows": parameters.rows, "columns": parameters.columns})
    (ports,) = pack(Ports, {"beat_words": parameters.beat_words, "axi_ports": parameters.axi_ports,
                            "ports": parameters.ports})
    return {
        Register.MACHINE: info, Register.FORMATS: formats, Register.ARRAY: array, Register.PORTS: ports,
        Register.ENGINES_PRESENT: sum(1 << engine.value for engine in parameters.engines),
        Register.BLOCK_RAM_WORDS: parameters.block_ram_words,
        Register.PARAMETERS_DIGEST: parameters_digest(parameters), Register.VERILOG_DIGEST: verilog_digest,
    }


def _name(fmt: NumberFormat) -> str:
    integer, fraction = fmt.integer_bits, fmt.fraction_bits
    text = f"q{integer}.{fraction}" if fmt.fixed else f"float{1 + integer + fraction}e{integer}m{fraction}"
    return _NAMES.get(text, text)


def _told(values: Mapping[Register, int]) -> dict[str, str]:
    """What the registers say, as texts by the names of parameters."""
    told: dict[str, str] = {}
    for register, value in values.items():
        if register.holds is Engine:
            told["engines"] = ", ".join(engine.name.lower() for engine in Engine if value >> engine.value & 1)
        elif isinstance(register.holds, int):
            told[register.name.lower()] = f"{value:08x}" if register.name.endswith("DIGEST") else str(value)
        else:
            for name, field in vars(unpack(register.holds, [value])).items():
                if isinstance(field, NumberFormat):
                    told[f"format of {name}"] = _name(field)
                elif not name.startswith("reserved"):
                    told[name] = field.name.lower().replace("_", "-") if isinstance(field, Machine) else str(field)
    return told


def described(values: Mapping[Register, int]) -> str:
    """A die in words, of the values of its identity registers: ``systolic FP32 die of 8 x 8 (digest 0123abcd)``."""
    told = _told(values)
    memory, products = told["format of memory"], told["format of products"]
    numbers = products if memory == products else f"{products} and {memory}"
    return f"{told['machine']} {numbers} die of {told['rows']} x {told['columns']} (digest {told['parameters_digest']})"


def differences(registers: Mapping[Register, int], wanted: Mapping[Register, int]) -> list[str]:
    """What a die says otherwise than it should, as ``rows 8, not 12``; nothing if it does the same. Whether Verilog
    differs is left out: the same die may be written in other ways."""
    there, here = _told(registers), _told(wanted)
    texts = [f"{name} {there[name]}, not {here[name]}" for name in here
             if there[name] != here[name] and not name.endswith("digest")]
    if not texts and there["parameters_digest"] != here["parameters_digest"]:
        texts.append("parameters that only the digest tells")
    return texts
