"""Identity registers tell dies apart, in words and by digest."""

import subprocess
import sys
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import pytest

from plinth_hw.isa.formats import FP16, Q3_12
from plinth_hw.isa.identity import IDENTITY_REGISTERS, described, differences, identity, parameters_digest
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import PRESETS, preset
from plinth_hw.isa.registers import Register

DEMO = preset("ndp-demo")
#: Another value of every parameter.
CHANGES: dict[str, Any] = {
    "name": "other", "machine": "row-stationary", "rows": 7, "columns": 7, "multiply_format": FP16, "interleave": 16,
    "filter_words": 228, "ifmap_words": 64, "psum_words": 8, "feed_words": 2, "beat_words": 16,
    "memory_words_per_cycle": Fraction(3), "operand_buffer_words": 2048, "output_buffer_words": 2048,
    "vector_buffer_words": 4096, "chunk_words": 32, "reduce_blocks": 1, "flit_words": 4, "link_rate": Fraction(1, 2),
    "port_rates": True, "link_phits": 1, "link_buffer_packets": 8,
    "ports": 3, "counters": 32, "die_bits": 7, "address_bits": 30,
    "axi_ports": 2, "block_ram_words": 4096, "window": True, "transforms": ((2, 3),),
    "transfer_words": 8, "sets_routes": True,
    "engines": frozenset({Engine.MATRIX})}


def test_digests_are_of_all_that_shapes_hardware() -> None:
    tried = {name: parameters_digest(replace(DEMO, **{name: value})) for name, value in CHANGES.items()}
    tried["codes"] = parameters_digest(replace(DEMO, transforms=((2, 3),), codes=True))
    tried["accumulate_format"] = parameters_digest(replace(DEMO, accumulate_format=FP16))
    assert set(tried) == {field.name for field in fields(DEMO)}
    same = {name for name, digest in tried.items() if digest == parameters_digest(DEMO)}
    assert same == {"name", "memory_words_per_cycle", "link_rate"}
    assert len(set(tried.values())) == len(tried) - 2


def test_a_digest_is_the_same_in_every_run() -> None:
    """Sets have another order from run to run."""
    code = ("from plinth_hw.isa.identity import parameters_digest; from plinth_hw.isa.parameters import preset; "
            "print(parameters_digest(preset('ndp-demo')))")
    ran = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True)
    assert int(ran.stdout) == parameters_digest(DEMO)


def test_presets_are_told_apart() -> None:
    identities = [identity(die) for die in PRESETS.values()]
    assert len({values[Register.PARAMETERS_DIGEST] for values in identities}) == len(identities)
    assert all(tuple(values) == IDENTITY_REGISTERS for values in identities)
    assert [register.value for register in IDENTITY_REGISTERS] == list(range(0xC0, 0xE0, 4))


@pytest.mark.parametrize(("name", "changes", "text"), [
    ("ndp-demo", {}, "systolic FP32 die of 8 x 8"),
    ("hypar-demo-mixed", {}, "row-stationary FP16 and FP32 die of 6 x 8"),
    ("ndp-tiny", {"multiply_format": Q3_12}, "systolic q3.12 die of 4 x 4")])
def test_a_die_in_words(name: str, changes: dict[str, Any], text: str) -> None:
    die = preset(name, **changes)
    assert described(identity(die)) == f"{text} (digest {parameters_digest(die):08x})"


@pytest.mark.parametrize(("changes", "texts"), [
    ({}, []), ({"name": "other"}, []), ({"rows": 4, "columns": 6}, ["rows 4, not 8", "columns 6, not 8"]),
    ({"multiply_format": Q3_12},
     ["format of sums q23.24, not FP32", "format of memory q3.12, not FP32", "format of products q3.12, not FP32"]),
    ({"block_ram_words": 4096, "axi_ports": 0}, ["axi_ports 0, not 1", "block_ram_words 4096, not 0"]),
    ({"engines": frozenset({Engine.TRANSFER, Engine.MATRIX})},
     ["engines matrix, transfer, not matrix, vector, collective, transfer"]),
    ({"counters": 32}, ["parameters that only the digest tells"])])
def test_what_differs(changes: dict[str, Any], texts: list[str]) -> None:
    assert differences(identity(replace(DEMO, **changes), 7), identity(DEMO)) == texts
