"""Plinth: networks, plans, simulated steps and training runs on accelerator dies, from Python.

::

    import plinth

    plan = plinth.plan("digits-mlp", "ring-4")
    run = plan.train(x, y, epochs=4)

`docs/api.md` has the names that stay. They are loaded when they are used: importing this package loads nothing else.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plinth.api.local import LocalTrainingResult, train_locally
    from plinth.api.objects import array, network, verilog
    from plinth.api.planning import PlanResult, StepListing, load_plan, plan
    from plinth.api.profiling import ProfileResult, profile
    from plinth.api.simulating import SimulationResult, simulate
    from plinth.api.training import TrainingError, TrainingResult, train
    from plinth.api.workers import get_runner, partitioner, shard, trainer
    from plinth.errors import UserError as Error

__all__ = ["Error", "LocalTrainingResult", "PlanResult", "ProfileResult", "SimulationResult", "StepListing",
           "TrainingError", "TrainingResult", "array", "get_runner", "load_plan", "network", "partitioner", "plan",
           "profile", "shard", "simulate", "train", "train_locally", "trainer", "verilog"]

#: Where names are, and what they are called there.
_PLACES = {
    "Error": ("plinth.errors", "UserError"),
    **{name: ("plinth.api.local", name) for name in ("LocalTrainingResult", "train_locally")},
    **{name: ("plinth.api.objects", name) for name in ("array", "network", "verilog")},
    **{name: ("plinth.api.planning", name) for name in ("PlanResult", "StepListing", "load_plan", "plan")},
    **{name: ("plinth.api.profiling", name) for name in ("ProfileResult", "profile")},
    **{name: ("plinth.api.simulating", name) for name in ("SimulationResult", "simulate")},
    **{name: ("plinth.api.training", name) for name in ("TrainingError", "TrainingResult", "train")},
    **{name: ("plinth.api.workers", name) for name in ("get_runner", "partitioner", "shard", "trainer")},
}
#: Functions that have the name of a room: Python makes every room that is imported an attribute of this package, so
#: that the room itself can be called.
_ROOMS = ("array", "network", "plan", "profile", "simulate", "train")


def _load(name: str) -> Any:
    module, known_as = _PLACES[name]
    return getattr(import_module(module), known_as)


class _CallableRoom(ModuleType):
    """A room that does what the function of its name does."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return _load(self.__name__.rpartition(".")[2])(*arguments, **options)

    @property
    def __wrapped__(self) -> Any:
        """The function, where ``inspect.signature`` looks for it."""
        return _load(self.__name__.rpartition(".")[2])

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        """That of the function."""
        return _load(self.__name__.rpartition(".")[2]).__doc__  # type: ignore[no-any-return]


class _Package(ModuleType):
    """This package; rooms that have the name of a function become callable as they are imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _ROOMS and type(value) is ModuleType:
            value.__class__ = _CallableRoom
        super().__setattr__(name, value)


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"plinth.{name}")
    if name in _PLACES:
        exported = globals()[name] = _load(name)
        return exported
    raise AttributeError(f"module 'plinth' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


sys.modules[__name__].__class__ = _Package
