"""The row about profiles of devices: how far fitted times are from those of sizes that played no part in the fits."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from plinth.bench.row import BenchRow
from plinth.profile.profile import Profile, profile_of
from plinth.runtime.launcher import printed

#: Devices by the arguments of `plinth profile`: the host, with one BLAS thread, and a co-simulated die.
DEVICES = {"host": ("numpy",), "die": ("cosim", "--machine", "fpga-demo")}


def _profiled(device: str) -> Profile:
    """The profile that the command makes of a device."""
    return profile_of(json.loads(printed(1, ["-m", "plinth.cli", "profile", *DEVICES[device], "--json"])), device)


def _errors(profile: Profile) -> dict[str, float]:
    """Median relative errors of fits on sizes that played no part in them: of operations and transfers, and of whole
    batches."""
    return {"operations": profile.check_error() or 0.0, "batches": profile.batch_error(fitted=False) or 0.0}


def profile_fit_error() -> list[BenchRow]:
    """The larger of the medians, over the operations and over the whole batches of sizes that played no part, of the
    host and of a co-simulated die: by how much the fitted time is off."""
    profiles = {device: _profiled(device) for device in DEVICES}
    errors = {f"{device}, {what}": error for device, profile in profiles.items()
              for what, error in _errors(profile).items()}
    worst = max(errors, key=lambda name: errors[name])
    detail: dict[str, Any] = {"errors": errors}
    for device, profile in profiles.items():
        kinds = {name: kind.error(fitted=False) for name, kind in profile.kinds.items()}
        detail[device] = {"under": dict(profile.conditions), "table_2_error": profile.costs_error, "kinds": kinds,
                          "worst_kind_error": float(np.max([error for error in kinds.values() if error is not None]))}
    return [BenchRow("profile_fit_error", errors[worst], "median of |fitted / measured - 1| on other sizes",
                     f"{worst}: rates that differ by sizes, and, on the host, other programs", detail)]


#: Names and functions of these rows.
BENCHES: dict[str, Callable[[], list[BenchRow]]] = {"profile_fit_error": profile_fit_error}
