"""The coordinator: it trains a global network by local ones on kernels that each go on at their own pace.

Deep3's Algorithm 1, mended: of each kernel at most one set is outstanding; an answer has the number of its set, by
which the history tells what units it had; training ends when the accuracy or the number of batches is reached,
whichever comes first (the printed test never ends); kernels train as many batches as they were told (the printed loop
one more); and at the end the global network's weights are read. Differences are of weights that others may have
changed since: the *staleness* of an answer is how many answers of others were merged meanwhile. One thread sends,
receives and merges.

A kernel that dies, does not answer in time, answers what it was not asked or what is not finite is left out, and
training goes on without it. Once all are, it ends, with the best weights so far.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.local.draws import Draw
from plinth.local.links import KernelLinks
from plinth.local.merging import GlobalModel
from plinth.local.sets import Answer, LocalSet, Lost
from plinth.network.local import LocalNetwork, LocalPart
from plinth.network.parameters import Parameters

#: Seconds without an answer after which a kernel is left out.
PATIENCE_SECONDS = 300.0


@dataclass
class KernelRecord:
    """What has happened with a kernel.

    Attributes
    ----------
    name : str
    sent, merged, dropped : int
        Sets that it was sent, that were merged, and answers that were not.
    batches : int
        That it has trained on, of merged sets.
    staleness : list of int
        Of each merged set.
    words_sent, words_received : int
        To it, and from it.
    seconds : float
        That it has trained, by its own clock.
    counted : dict
        Sums of its counters.
    lost : str
        Why it was left out; empty if it was not.
    different : bool
        Its bits were not the golden model's.
    """

    name: str
    sent: int = 0
    merged: int = 0
    dropped: int = 0
    batches: int = 0
    staleness: list[int] = field(default_factory=list)
    words_sent: int = 0
    words_received: int = 0
    seconds: float = 0.0
    counted: dict[str, float] = field(default_factory=dict)
    lost: str = ""
    different: bool = False

    @property
    def bit_exact(self) -> bool | None:
        """Whether its bits were the golden model's after every merged set; None: they were not compared."""
        if self.different:
            return False
        return True if self.merged and self.counted.get("compared_sets", 0) == self.merged else None


@dataclass(frozen=True, kw_only=True)
class Point:
    """A validation.

    Attributes
    ----------
    merged, batches, words : int
        Answers so far, batches of these, words both ways.
    seconds : float
        Since training began, by the links' clock.
    loss : float
    accuracy : float or None
        Share of samples that is right; None where there are no classes.
    """

    merged: int
    batches: int
    words: int
    seconds: float
    loss: float
    accuracy: float | None


@dataclass(frozen=True, kw_only=True)
class Ending:
    """When training ends.

    Attributes
    ----------
    batches : int
        Once kernels have trained on so many, of merged sets.
    accuracy : float or None
        Once a validation has found so much; None: never.
    """

    batches: int
    accuracy: float | None = None


@dataclass(frozen=True, kw_only=True)
class CoordinatorRun:
    """What a run has come to.

    Attributes
    ----------
    parameters : mapping of str to array
        The global network's weights behind the last merge; where all kernels were lost, those of the best validation.
    curve : list of Point
    kernels : list of KernelRecord
    events : list of str
        What happened beside merges, a line each.
    ended : str
        ``"accuracy"``, ``"batches"``, ``"lost"`` or ``"interrupted"``.
    seconds : float
    """

    parameters: Parameters
    curve: list[Point]
    kernels: list[KernelRecord]
    events: list[str]
    ended: str
    seconds: float


@dataclass
class _Outstanding:
    """A set that a kernel has not answered."""

    number: int
    parts: Mapping[str, LocalPart]
    #: Answers that were merged before it was sent, of all kernels.
    merged: int
    sent: float


Validate = Callable[[Parameters], tuple[float, float | None]]


class Coordinator:
    """Trains a global network.

    Parameters
    ----------
    model : GlobalModel
    locals_of : sequence of LocalNetwork
        Of each kernel, its local networks.
    draws : sequence of Draw
        Of each kernel, what draws its units.
    links : KernelLinks
        To the kernels.
    names : sequence of str
        What reports call them.
    push : sequence of int
        Batches of a set of each kernel, n_push.
    ending : Ending
    validate : callable
        Of the global network's weights the loss, and the share of samples that is right.
    validate_every : int
        Merges of which one is followed by a validation; the last one always is.
    patience_seconds : float
        Longest time for an answer; on a virtual clock, where none is late, it means nothing.
    """

    def __init__(self, model: GlobalModel, locals_of: Sequence[LocalNetwork], draws: Sequence[Draw],
                 links: KernelLinks, *, names: Sequence[str], push: Sequence[int], ending: Ending, validate: Validate,
                 validate_every: int, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._model, self._locals, self._draws, self._links = model, locals_of, draws, links
        self._push, self._ending = push, ending
        self._validate, self._every, self._patience = validate, validate_every, patience_seconds
        self.kernels = [KernelRecord(name) for name in names]
        self._outstanding: dict[int, _Outstanding] = {}
        self.curve: list[Point] = []
        self.events: list[str] = []
        self._best: tuple[float, Parameters] | None = None

    @property
    def merged(self) -> int:
        """Answers that were merged."""
        return sum(kernel.merged for kernel in self.kernels)

    @property
    def batches(self) -> int:
        """Batches of merged answers."""
        return sum(kernel.batches for kernel in self.kernels)

    @property
    def words(self) -> int:
        """Words both ways."""
        return sum(kernel.words_sent + kernel.words_received for kernel in self.kernels)

    def weights(self) -> Parameters:
        """A copy of the global network's weights, as they are now."""
        return self._model.values()

    def run(self, progress: Callable[[Coordinator], object] = lambda _: None) -> CoordinatorRun:
        """Train; ``progress`` is called after each answer. KeyboardInterrupt ends training, as ``ended`` says."""
        ended = "batches"
        try:
            for kernel in range(len(self.kernels)):
                self._send(kernel)
            ended = self._loop(progress)
        except KeyboardInterrupt:
            ended = "interrupted"
        finally:
            self._links.close()
        if self.merged and (not self.curve or self.curve[-1].merged < self.merged):
            self._look()
        parameters = self._best[1] if ended == "lost" and self._best is not None else self._model.values()
        return CoordinatorRun(parameters=parameters, curve=self.curve, kernels=self.kernels, events=self.events,
                              ended=ended, seconds=self._links.now())

    def _loop(self, progress: Callable[[Coordinator], object]) -> str:
        while self._outstanding:
            letter = self._links.next(self._left())
            if letter is None:
                self._leave_late()
                progress(self)
                continue
            kernel, content = letter
            merged = self._take(kernel, content)
            if merged and self.merged % self._every == 0:
                self._look()
            progress(self)
            if self.batches >= self._ending.batches:
                return "batches"
            if merged and self._reached():
                return "accuracy"
            if merged:
                self._send(kernel)
        return "lost"

    def _left(self) -> float:
        """Seconds until the first kernel is too late."""
        return min(out.sent for out in self._outstanding.values()) + self._patience - self._links.now()

    def _leave_late(self) -> None:
        now = self._links.now()
        for kernel, out in list(self._outstanding.items()):
            if now - out.sent >= self._patience:
                self._leave(kernel, f"has not answered set {out.number} for {self._patience:g} s")

    def _send(self, kernel: int) -> None:
        record, local = self.kernels[kernel], self._locals[kernel]
        units = self._draws[kernel].draw()
        parts = local.parts(units)
        given = LocalSet(number=record.sent, units=units, weights=self._model.held(parts), batches=self._push[kernel])
        self._outstanding[kernel] = _Outstanding(record.sent, parts, self.merged, self._links.now())
        record.sent += 1
        record.words_sent += given.words
        self._links.send(kernel, given)

    def _take(self, kernel: int, content: Answer | Lost) -> bool:
        """Merge what has come from a kernel, or leave it out; whether it was merged."""
        record, out = self.kernels[kernel], self._outstanding.get(kernel)
        if isinstance(content, Lost):
            record.different |= content.different
            self._leave(kernel, content.why)
            return False
        record.words_received += content.words
        why = self._wrong(content, out)
        if why or out is None:
            record.dropped += 1
            self._leave(kernel, why)
            return False
        del self._outstanding[kernel]
        self._model.merge(out.parts, content.differences)
        record.staleness.append(self.merged - out.merged)
        record.merged += 1
        record.batches += self._push[kernel]
        record.seconds += content.seconds
        for name, count in content.counted.items():
            record.counted[name] = record.counted.get(name, 0) + count
        return True

    @staticmethod
    def _wrong(answer: Answer, out: _Outstanding | None) -> str:
        """Why an answer is not merged; empty if it is."""
        if out is None or answer.number != out.number:
            return f"has answered set {answer.number}, which it was not asked for any more"
        shapes = {name: tuple(map(len, part.indices)) for name, part in out.parts.items()}
        found = {name: np.shape(values) for name, values in answer.differences.items()}
        if found != shapes:
            return f"has answered set {answer.number} with other variables, or of other shapes, than it was sent"
        odd = next((name for name, values in answer.differences.items() if not _finite(values)), None)
        return "" if odd is None else f"has answered set {answer.number} with {odd!r} that is not finite"

    def _leave(self, kernel: int, why: str) -> None:
        """Leave a kernel out from now on."""
        record = self.kernels[kernel]
        out = self._outstanding.pop(kernel, None)
        if out is not None:
            self._model.release(out.parts)
        if not record.lost:
            record.lost = why
            self.events.append(f"kernel {kernel} ({record.name}) is left out after {record.merged} sets: {why}")
        else:
            self.events.append(f"kernel {kernel} ({record.name}), which was left out: {why}")

    def _look(self) -> None:
        parameters = self._model.values()
        loss, accuracy = self._validate(parameters)
        self.curve.append(Point(merged=self.merged, batches=self.batches, words=self.words, seconds=self._links.now(),
                                loss=loss, accuracy=accuracy))
        good = -loss if accuracy is None else accuracy
        if self._best is None or good > self._best[0]:
            self._best = good, parameters

    def _reached(self) -> bool:
        wanted = self._ending.accuracy
        return wanted is not None and bool(self.curve) and (self.curve[-1].accuracy or 0.0) >= wanted


def _finite(values: NDArray[Any]) -> bool:
    return values.dtype.kind == "f" and bool(np.isfinite(values).all())
