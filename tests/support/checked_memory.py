"""The checked memory that compiled harnesses share (``checked_memory.h``), fitted to a model's ports."""

from collections.abc import Sequence
from pathlib import Path

from plinth_hw.isa.parameters import DieParameters
from plinth_hw.memory.port import MAX_BEATS, TASK_BITS, request_layout

_HEADER = Path(__file__).with_name("checked_memory.h")
_READ = ("request_valid", "request_ready", "request_payload", "data_valid", "data_ready", "data_payload")
_WRITE = (*_READ, "response")


def references(kind: str, names: Sequence[str], members: Sequence[str]) -> str:
    """C++ of a struct of references to the ``members`` of a kind of port.

    ``<kind>_PORT(model, name)`` makes it for a pointer to a model; ``FOR_<kind>_PORTS(apply)`` applies a macro
    to each of the ``names``.
    """
    types = ", ".join(f"typename T{i}" for i in range(len(members)))
    reached = ", ".join(f"(model)->name##_{member}" for member in members)
    return "\n".join([
        f"template <{types}> struct {kind} {{",
        *(f"    T{i} &{member};" for i, member in enumerate(members)), "};",
        f"template <typename... T> {kind}<T...> make_{kind}(T &...p) {{ return {{p...}}; }}",
        f"#define {kind}_PORT(model, name) make_{kind}({reached})",
        f"#define FOR_{kind}_PORTS(apply) " + " ".join(f"apply({name})" for name in names), ""])


def headers(parameters: DieParameters, reads: Sequence[str], writes: Sequence[str], *,
            prompt_writes: bool = False) -> dict[str, str]:
    """Headers, as :func:`build_library` takes them, for a model with such memory ports.

    ``prompt_writes``: the model promises more than the port asks for: write data are there whenever memory,
    which has taken their request, takes them.
    """
    ports = "\n".join([
        f"using Word = uint{parameters.word_bits}_t;",
        f"constexpr int BEAT_WORDS = {parameters.beat_words};",
        f"constexpr int REQUEST_BITS = {request_layout(parameters).size - TASK_BITS};",
        f"constexpr int READ_PORTS = {len(reads)}, WRITE_PORTS = {len(writes)}, MAX_BEATS = {MAX_BEATS};",
        f"constexpr bool PROMPT_WRITES = {str(prompt_writes).lower()};",
        references("READ", reads, _READ), references("WRITE", writes, _WRITE)])
    return {_HEADER.name: _HEADER.read_text(), "memory_ports.h": ports}
