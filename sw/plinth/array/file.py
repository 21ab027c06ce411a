"""Arrays in files: YAML in and out, its schema, and finding an array by name or path."""

import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

from plinth.array.array import (
    ARRAYS,
    AT_LINKS,
    BUILT,
    MAXIMUM_LATENCY,
    MAXIMUM_MEMORY,
    MAXIMUM_PORTS,
    TOPOLOGIES,
    Array,
    sized,
    sizes_of,
)
from plinth.array.host import OPTIONAL_RATES, RATES, HostRates
from plinth.errors import UserError, about, quoted
from plinth.files.documents import check_choice, check_mapping, check_version, dump_yaml, nearest, read_yaml
from plinth.files.forms import NAME_PATTERN, described
from plinth.limits import MAXIMUM_DIES
from plinth_hw.isa.parameters import PRESETS

#: Version of the array file format.
ARRAY_VERSION = 1

_REQUIRED = ("version", "name", "topology", "dies", "preset")
_OPTIONAL = ("dimensions", "links", "routes", "tile_routes", "link_rate", "narrow_rate", "ring_links", "link_latency",
             "speeds", "clock_mhz", "memory_bytes", "codes", "host")
_RATE_PATTERN = r"(0|[1-9][0-9]{0,30})(/[1-9][0-9]{0,30}|\.[0-9]{1,30})?"


def _rate(value: Any, where: str, what: str) -> Fraction:
    """A number, or text as ``15/16``, exactly."""
    if isinstance(value, float) and math.isfinite(value) and value >= 0:
        return Fraction(str(value))
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if isinstance(text, str) and text.startswith("-"):
        raise UserError(f"{where}: {what} must be above 0, not {described(value)}")
    if not isinstance(text, str) or not re.fullmatch(_RATE_PATTERN, text):
        raise UserError(f"{where}: {what} must be a number above 0, as 2, 0.125 or 15/16, not {described(value)}")
    return Fraction(text)


def _rate_to_data(value: Fraction) -> int | str:
    return value.numerator if value.denominator == 1 else str(value)


def _host(data: Any, where: str) -> HostRates:
    check_mapping(data, where, "host", required=[name for name in RATES if name not in OPTIONAL_RATES],
                  optional=OPTIONAL_RATES)
    with about(where, ValueError):
        return HostRates(**data)


def _list(value: Any, where: str, what: str, form: str, most: int) -> list[Any]:
    if not isinstance(value, list) or not 1 <= len(value) <= most:
        raise UserError(f"{where}: {what} must be a list of 1 to {most} {form}, not "
                        f"{f'{len(value)} of them' if isinstance(value, list) else described(value)}")
    return value


def array_from_data(data: Any, where: str) -> Array:
    """Make an array from what a YAML file holds.

    Parameters
    ----------
    data : object
        As :func:`array_schema` says.
    where : str
        Named in errors.

    Raises
    ------
    UserError
        If the data does not have this form, the array cannot be, or routes that are given, or that follow from links
        that are, form a circle.
    """
    check_version(data, where, "an array", ARRAY_VERSION, "write the file as `plinth schema array` says")
    check_mapping(data, where, "an array", required=_REQUIRED, optional=_OPTIONAL)
    settings = {key: data[key] for key in ("name", "topology", "dies", "preset", "ring_links", "link_latency",
                                         "memory_bytes", "codes") if key in data}
    for key, known in (("topology", TOPOLOGIES), ("preset", tuple(PRESETS)), ("codes", (BUILT, AT_LINKS))):
        if key in settings:
            check_choice(settings[key], known, where, key)
    if "dimensions" in data:
        settings["dimensions"] = tuple(_list(data["dimensions"], where, "dimensions", "sizes", 2))
    if "links" in data:
        links = _list(data["links"], where, "links", "links", MAXIMUM_DIES * MAXIMUM_PORTS // 2)
        for link in links:
            if not isinstance(link, list) or not 4 <= len(link) <= 6:
                raise UserError(f"{where}: a link must be [die, port, die, port], with its rate and its latency behind "
                                f"if it has its own, not {described(link)}")
        settings["wiring"] = tuple(tuple(link[:4]) for link in links)
        rates = tuple(None if rate is None else _rate(rate, where, f"rate of link {described(link[:4])}")
                      for link in links for rate in (link[4] if len(link) > 4 else None,))
        latencies = tuple(link[5] if len(link) > 5 else None for link in links)
        settings |= {key: values for key, values in (("wiring_rates", rates), ("wiring_latencies", latencies))
                     if any(value is not None for value in values)}
    for key in {"routes", "tile_routes"} & set(data):
        rows = _list(data[key], where, key, "rows", MAXIMUM_DIES)
        settings[key] = tuple(tuple(_list(row, where, f"a row of {key}", "ports", MAXIMUM_DIES)) for row in rows)
    for key in ("link_rate", "narrow_rate", "clock_mhz"):
        if key in data:
            settings[key] = _rate(data[key], where, key)
    if "speeds" in data:
        settings["speeds"] = tuple(_rate(speed, where, f"speed of die {die}") for die, speed in enumerate(
            _list(data["speeds"], where, "speeds", "numbers", MAXIMUM_DIES)))
    if "host" in data:
        settings["host"] = _host(data["host"], where)
    with about(where, ValueError):
        array = Array(**settings)
    for what, routed in (("routes", array), ("tile_routes", array.for_tiles)):
        if (routed.wiring or routed.routes) and (circle := routed.circle()):
            raise UserError(f"{where}: {what} form a circle, in which packets wait for each other for ever: {circle}; "
                            "give routes that form none, or join ports 2n and 2n + 1 of dies in a ring")
    return array


def _link_to_data(ends: tuple[int, int, int, int], rate: Fraction | None, latency: int | None
                  ) -> list[int | str | None]:
    """A link as files hold it: what it shares with all others is left out, or null before what it has of its own."""
    own = [None if rate is None else _rate_to_data(rate), latency]
    while own and own[-1] is None:
        own.pop()
    return [*ends, *own]


def array_to_data(array: Array) -> dict[str, Any]:
    """An array as YAML holds it; what has its default is left out, and so are links that the topology gives."""
    data: dict[str, Any] = {"version": ARRAY_VERSION, "name": array.name, "topology": array.topology,
                            "dies": array.dies, "preset": array.preset}
    if array.dimensions:
        data["dimensions"] = list(array.dimensions)
    if array.wiring:
        rates = array.wiring_rates or (None,) * len(array.wiring)
        latencies = array.wiring_latencies or (None,) * len(array.wiring)
        data["links"] = [_link_to_data(*link) for link in zip(array.wiring, rates, latencies, strict=True)]
    if array.routes:
        data["routes"] = [list(row) for row in array.routes]
    if array.tile_routes:
        data["tile_routes"] = [list(row) for row in array.tile_routes]
    if array.link_rate is not None:
        data["link_rate"] = _rate_to_data(array.link_rate)
    if array.narrow_rate is not None:
        data["narrow_rate"] = _rate_to_data(array.narrow_rate)
    if array.ring_links != Array.ring_links:
        data["ring_links"] = array.ring_links
    if array.link_latency != Array.link_latency:
        data["link_latency"] = array.link_latency
    if array.speeds:
        data["speeds"] = [_rate_to_data(speed) for speed in array.speeds]
    if array.clock_mhz != Array.clock_mhz:
        data["clock_mhz"] = _rate_to_data(array.clock_mhz)
    if array.memory_bytes != Array.memory_bytes:
        data["memory_bytes"] = array.memory_bytes
    if array.codes is not None:
        data["codes"] = array.codes
    if array.host is not None:
        data["host"] = array.host.to_data()
    return data


def array_to_yaml(array: Array) -> str:
    """An array as the text of a YAML file; reading it gives the same array."""
    return dump_yaml(array_to_data(array))


def array_schema() -> dict[str, Any]:
    """The form of array files as JSON Schema."""
    die = {"type": "integer", "minimum": 0, "maximum": MAXIMUM_DIES - 1}
    port = {"type": "integer", "minimum": 0, "maximum": MAXIMUM_PORTS - 1}
    latency = {"type": "integer", "minimum": 1, "maximum": MAXIMUM_LATENCY}
    nothing = {"type": "null"}
    rate = {"oneOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string", "pattern": f"^{_RATE_PATTERN}$"}]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Plinth array",
        "description": "Dies of one preset and how they are joined.",
        "type": "object", "additionalProperties": False, "required": list(_REQUIRED),
        "properties": {
            "version": {"const": ARRAY_VERSION},
            "name": {"type": "string", "pattern": f"^{NAME_PATTERN}$"},
            "topology": {"description": "'links' takes the links from the key links, the others derive them",
                         "enum": list(TOPOLOGIES)},
            "dies": {"type": "integer", "minimum": 1, "maximum": MAXIMUM_DIES},
            "preset": {"description": "preset of every die", "enum": list(PRESETS)},
            "dimensions": {"description": "rows and columns of a torus; groups and clusters", "type": "array",
                           "items": {"type": "integer", "minimum": 1, "maximum": MAXIMUM_DIES},
                           "minItems": 2, "maxItems": 2},
            "links": {"description": "[die, port, die, port], [die, port, die, port, rate] or [die, port, die, port, "
                                     "rate, latency], both ways; null: link_rate, link_latency",
                      "type": "array", "minItems": 1,
                      "items": {"type": "array", "prefixItems": [
                          die, port, die, port, {"oneOf": [*rate["oneOf"], nothing]}, {"oneOf": [latency, nothing]}],
                          "minItems": 4, "maxItems": 6}},
            "routes": {"description": "a row a die: for each destination the port by which it sends, null for itself; "
                                      "default: the lowest that leads nearer",
                       "type": "array", "minItems": 1, "maxItems": MAXIMUM_DIES,
                       "items": {"type": "array", "items": {"oneOf": [port, {"type": "null"}]}}},
            "tile_routes": {"description": "the same of tiles, of dies that set routes; default: as all else",
                            "type": "array", "minItems": 1, "maxItems": MAXIMUM_DIES,
                            "items": {"type": "array", "items": {"oneOf": [port, {"type": "null"}]}}},
            "link_rate": {**rate, "description": "words a cycle and direction; default: the preset's"},
            "narrow_rate": {**rate, "description": "the same of links inside clusters; default: as others"},
            "ring_links": {"description": "links side by side between neighbours of a group of clusters",
                           "type": "integer", "minimum": 1, "maximum": MAXIMUM_PORTS, "default": Array.ring_links},
            "link_latency": {**latency, "description": "cycles from die to die, of links without their own",
                             "default": Array.link_latency},
            "speeds": {"description": "speed of each die relative to the others; default: all 1", "type": "array",
                       "items": rate, "minItems": 1, "maxItems": MAXIMUM_DIES},
            "clock_mhz": {**rate, "description": "clock of dies and links",
                          "default": _rate_to_data(Array.clock_mhz)},
            "memory_bytes": {"description": "memory of each die", "type": "integer", "minimum": 1,
                             "maximum": MAXIMUM_MEMORY, "default": Array.memory_bytes},
            "codes": {"description": "dies code and predict tiles beside what the preset has: by stages as they are "
                      "built, or as fast as links, which is a model alone", "enum": [BUILT, AT_LINKS]},
            "host": {"description": "hosts that run numpy stand in the dies' places: what one does in a nanosecond, "
                                    "which a cycle is", "type": "object", "additionalProperties": False,
                     "required": [name for name in RATES if name not in OPTIONAL_RATES],
                     "properties": {name: {"description": what, "type": "number", "minimum": least, "maximum": most}
                                    for name, (least, most, what) in RATES.items()}},
        },
    }


def load_array(name_or_path: str) -> Array:
    """An array by its name, or one read from a YAML file.

    Raises
    ------
    UserError
        If there is no such array or file, or the file is too large or malformed.
    """
    if name_or_path in ARRAYS:
        return ARRAYS[name_or_path]
    try:
        array = sized(name_or_path)
    except ValueError as error:
        raise UserError(f"array {quoted(name_or_path)} cannot be: {error}; there are {sizes_of(name_or_path)}, or give "
                        "a .yaml file") from None
    if array is not None:
        return array
    path = Path(name_or_path)
    if path.suffix not in (".yaml", ".yml"):
        sizes = sizes_of(name_or_path) or "ring-N, full-N, torus-RxC and mpt-GxC of other sizes"
        raise UserError(f"array {quoted(name_or_path)} is unknown; {nearest(name_or_path, ARRAYS)}; there are {sizes}, "
                        "or give a .yaml file")
    return array_from_data(read_yaml(path), str(path))
