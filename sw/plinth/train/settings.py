"""What decides a run beside its weights: kept in checkpoints, and compared by runs that go on from them."""

import hashlib
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from plinth.errors import UserError
from plinth.files.documents import check_mapping
from plinth.files.forms import described, is_integer
from plinth.limits import MAXIMUM_BATCH, MAXIMUM_EPOCHS
from plinth.names import EXACT
from plinth.network.file import network_to_data
from plinth.network.layers import Convolution, Sparse
from plinth.network.network import Network
from plinth.output import json_text
from plinth.train.scale import Scale
from plinth.update.law import NUMBERS
from plinth.update.rule import UpdateRule

#: Number formats, as ``DieParameters.number_format`` has them.
NUMBER_FORMATS = ("fp32", "mixed", "fixed")
#: Options of a network's convolutions, as commands take them.
TILE_OPTIONS = ("winograd", "weights", "predict", "shares")
#: What headers have always said of a rule; numbers that they do not say are those of rules which came later.
_RULE = ("kind", "rate", "momentum", "epsilon", "wide", "stochastic")
#: Longest text of a setting.
MAXIMUM_TEXT = 1 << 18

#: A number with an exponent, as JSON has it.
_EXPONENT = r"-?[0-9]{1,20}(\.[0-9]{1,20})?[eE][+-]?[0-9]{1,3}"
_REMEDY = "give a file that `plinth train --save` wrote"


def tiles_of(network: Network) -> str:
    """Which convolutions are computed by Winograd tiles, how large, and what of them is trained; empty if none is."""
    return ", ".join(f"{layer.name} {outputs} {layer.weights}" for layer in network.layers
                     if isinstance(layer, Convolution)
                     and (outputs := layer.transform(network.shapes[layer.name].inputs)) is not None)


def network_digest(network: Network) -> str:
    """SHA-256 of a network's definition, without what :func:`tiles_of` says."""
    data = network_to_data(network)
    layers = [{key: value if layer["kind"] != Sparse.kind or key != "pattern" else value["digest"]
               for key, value in layer.items() if layer["kind"] != Convolution.kind or key not in TILE_OPTIONS}
              for layer in data["layers"]]
    return hashlib.sha256(json_text(data | {"layers": layers}).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Settings of a run, defaults as well. Where it ran (the last five) decides the order of sums only."""

    epochs: int
    batch: int
    rule: UpdateRule
    number_format: str
    scale: Scale
    #: Name of the samples, and SHA-256 of them as they are without the scale.
    data: str
    data_sha256: str
    #: As :func:`network_digest` and :func:`tiles_of`, and the options that say the latter.
    network_sha256: str
    tiles: str
    tile_options: Mapping[str, str] = field(default_factory=dict)
    preset: str
    array: str
    dies: int
    planner: str
    #: How the planner counted words; headers that do not say it are older than the choice.
    model: str = EXACT

    @property
    def place(self) -> str:
        """Dies, their preset, their array, the planner and its model if that is another than usual, in one phrase for
        messages."""
        model = "" if self.model == EXACT else f", model {self.model}"
        return f"{self.dies} x {self.preset} as {self.array}, planner {self.planner}{model}"

    def _compared(self) -> dict[str, tuple[Any, str]]:
        """What is compared, and how messages say it."""
        rule = self.rule
        compared: dict[str, tuple[Any, str]] = {
            "batch": (self.batch, f"batch={self.batch}"),
            "update": (rule.kind, f"update={rule.kind}"),
            "rate": (rule.rate, f"rate={rule.rate!r}"),
            "wide": (rule.wide, "wide=True" if rule.wide else "wide=False"),
            "stochastic": (rule.stochastic, "stochastic=True" if rule.stochastic else "rounding to nearest"),
            "format": (self.number_format, f"format={self.number_format}"),
            "scale": (self.scale, f"scale={self.scale}"),
            "data": (self.data_sha256, f"x={self.data} (SHA-256 {self.data_sha256[:8]})"),
            "tiles": (self.tiles, f"Winograd tiles of {self.tiles}" if self.tiles else "no Winograd tiles"),
            "network": (self.network_sha256, f"a network of definition {self.network_sha256[:8]}"),
        }
        return compared | {name: (value, f"{name}={value!r}") for name, value in rule.numbers.items()}

    @property
    def texts(self) -> dict[str, str]:
        """What decides the weights, as messages say it, by name."""
        return {name: text for name, (_, text) in self._compared().items()} | {
            "epochs": f"epochs={self.epochs}", "place": self.place}

    def differences(self, other: "RunSettings") -> Iterator[tuple[str, str, str]]:
        """Settings that are others: name, these and the other ones in words (empty where a rule has none)."""
        ours, theirs, none = self._compared(), other._compared(), (None, "")
        for name in dict.fromkeys((*ours, *theirs)):
            (value, text), (other_value, other_text) = ours.get(name, none), theirs.get(name, none)
            if value != other_value:
                yield name, text, other_text

    def to_data(self) -> dict[str, Any]:
        """The settings as a checkpoint's header holds them."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: Any, where: str) -> "RunSettings":
        """Settings from a header, which is untrusted.

        Raises
        ------
        UserError
            If they are not what :meth:`to_data` gives.
        """
        optional = ("tile_options", "model")
        names = [key for key in cls.__dataclass_fields__ if key not in optional]
        check_mapping(data, where, "settings of a run", required=names, optional=optional)
        rule, scale, options = data["rule"], data["scale"], data.get("tile_options", {})
        check_mapping(rule, where, "the rule of a run", required=_RULE, optional=UpdateRule.__dataclass_fields__)
        check_mapping(scale, where, "the scale of a run", required=Scale.__dataclass_fields__)
        check_mapping(options, where, "options of tiles", required=(), optional=TILE_OPTIONS)
        for key, most in (("epochs", MAXIMUM_EPOCHS), ("batch", MAXIMUM_BATCH), ("dies", MAXIMUM_BATCH)):
            if not is_integer(data[key], 1, most):
                raise _wrong(where, key, data[key], f"an integer from 1 to {most}")
        texts = {key: data[key] for key in ("data", "data_sha256", "network_sha256", "tiles", "preset", "array",
                                            "planner", *(("model",) if "model" in data else ()))} | dict(options)
        for key, value in texts.items():
            if not isinstance(value, str) or len(value) > MAXIMUM_TEXT:
                raise _wrong(where, key, value, "a text")
        if data["number_format"] not in NUMBER_FORMATS:
            raise _wrong(where, "number_format", data["number_format"], f"one of {', '.join(NUMBER_FORMATS)}")
        for key in ("wide", "stochastic"):
            if not isinstance(rule[key], bool):
                raise _wrong(where, key, rule[key], "true or false")
        numbers = {key: _number(rule[key], where, key) for key in ("rate", *NUMBERS) if key in rule}
        factors = {key: _number(value, where, f"scale of {key}") for key, value in scale.items()}
        try:
            update_rule = UpdateRule(**{**rule, **numbers})
            return cls(**{**data, "rule": update_rule, "scale": Scale(**factors), "tile_options": dict(options)})
        except (ValueError, TypeError) as error:
            raise UserError(f"{where}: {error}; {_REMEDY}") from error


def _wrong(where: str, key: str, value: Any, wanted: str) -> UserError:
    return UserError(f"{where}: {key} must be {wanted}, not {described(value)}; {_REMEDY}")


def _number(value: Any, where: str, key: str) -> float:
    """A finite number; the reader, of YAML 1.1, takes JSON's ``1e-06`` for text."""
    text = value if isinstance(value, str) and re.fullmatch(_EXPONENT, value) else None
    number = float(text) if text else value
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not math.isfinite(number):
        raise _wrong(where, key, value, "a finite number")
    return float(number)
