"""A gather of tile elements that sends what a ReLU does not make 0 anyway (docs/prediction.md), as operations::

    own elements as they are, all others' first bits       codes      from sources
    fills of these; which elements living neurons need     decode, predict
    masks of these, an element a row                       masks      to sources
    the next bits of what masks name                       codes      from sources
    fills, or in the last round exact words                decode

Each die's elements of its own samples are exact from the first on, which are fills as well, of any level. On the way
back errors of inputs go by the masks with which the inputs came: in one part, of words as they are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from plinth.buffers import Buffer
from plinth.errors import UserError
from plinth.partition.exchanges import ExchangeFlow
from plinth.partition.graph import Node
from plinth.partition.predicted import part_shares, skip_share
from plinth.step.between import Exchange
from plinth.step.coded_places import MASK, PerElement, PerMember, RowWords
from plinth.step.skipped_scatter import Masks
from plinth.step.step import Step
from plinth.step.tasks import CodePart, Decode, Encode, Members, Predict, SkipPart, Task, TileCopy, code_task
from plinth.step.tensors import Constant, Elements, Placed, Tensor, Tiles
from plinth.step.tile_operations import Gather
from plinth_hw.isa.codes import shifts
from plinth_hw.isa.layout import WORD_BITS
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.winograd import Form


def level_runs(part: CodePart | SkipPart, form: Form, tiles: Elements, first: int, count: int
               ) -> Iterator[tuple[int, int, CodePart | SkipPart]]:
    """Neighbouring elements of whole tiles that lie evenly and whose levels are alike, or that have none: first one,
    how many, their part."""
    rows = shifts(*(transform.a for transform in form.transforms))
    below = [shift for line in (zip(*rows, strict=True) if tiles.column else rows) for shift in line]
    for start, some in tiles.evenly(first, count):
        if isinstance(part, SkipPart) or part.regions:
            yield start, some, part
            continue
        for shift, alike in groupby(range(start, start + some), lambda element: below[element]):
            elements = list(alike)
            yield elements[0], len(elements), part._replace(shift=shift)


@dataclass(frozen=True, kw_only=True)
class CodedGather(Gather):
    """A part of the strings of what :class:`Gather` sends.

    Parameters
    ----------
    layer : Node
    part : CodePart or SkipPart
        Of elements whose level is the layer's.
    strings : PerElement
    asked : PerMember or None
        Masks, of a next part or of skip code.
    share : float
        Words that it sends for each of an element, about.
    """

    layer: Node
    part: CodePart | SkipPart
    strings: PerElement
    asked: PerMember | None
    share: float
    by_tasks = True

    @property
    def later(self) -> bool:
        """Whether it comes behind the first part of what is gathered."""
        return isinstance(self.part, CodePart) and self.part.number > 0

    def members(self, die: int) -> Members | None:
        """The dies of a die's cluster, if one task reaches all: strings are as long as they are, so none."""
        return None

    def sends(self, die: int) -> Iterator[Task]:
        """The tasks by which a die sends, in program order: what a die keeps comes last."""
        itself, *others = self.peers(die)
        for other in (*others, itself) if self.own else others:
            yield from self.tiles(die, other)

    def tiles(self, die: int, other: int) -> Iterator[Task]:
        """The tasks by which a die sends to another, or to itself: what a die has itself is copied; a task for
        neighbouring elements of a level to each other one."""
        if die == other:
            yield from super().tiles(die, other)
            return
        assert self.layer.tiling is not None
        source, target = self.source, self.targets[0]
        assert isinstance(source, Tiles) and isinstance(target, Tiles)
        mine, theirs = source.at(die), target.at(other)
        met = mine.part.meet(theirs.part)
        if not (mine.count and met):
            return
        (here, _), = met
        name = f"{self.name}[{other}]" + (f".{self.part.number}" if isinstance(self.part, CodePart) else "")
        for number, (first, count, part) in enumerate(level_runs(
                self.part, self.layer.tiling.form, theirs, mine.first, mine.count)):
            words = mine.part.view(mine.of(source.buffer(die), first), here)
            runs = words.part(words.name, 0, count, theirs.part.words, mine.plane)
            masks = None if self.asked is None else self.asked.of(die, other, first, count)
            work = Encode(part, runs, self.strings.of(other, first, count), masks, other, self.number)
            yield code_task(f"{name}.{number}", work, self.layer)

    def received(self, die: int) -> tuple[Buffer, ...]:
        """Places of a die that others write: strings."""
        return (self.strings.buffer(die),) if self.targets[0].part(die).words else ()


@dataclass(frozen=True, kw_only=True)
class MaskExchange(Exchange):
    """Masks from who gathers to who has the elements.

    Parameters
    ----------
    masks : PerElement
    asked : PerMember
    share : float
        Words that it sends for each of an element.
    """

    masks: PerElement
    asked: PerMember
    share: float = 1 / WORD_BITS
    by_tasks = True

    @property
    def flow(self) -> ExchangeFlow:
        """The regions, sizes and positions of what moves: back, for each word of what is gathered."""
        source, target, sizes, positions, _ = super().flow
        return ExchangeFlow(target, source, sizes, positions)

    def tiles(self, die: int, other: int) -> Iterator[Task]:
        """The tasks by which a die sends to another, or to itself."""
        theirs = self.asked.elements.at(other)
        if not (theirs.count and self.asked.samples.at(die).words):
            return
        for first, count in self.masks.tiles.at(die).evenly(theirs.first, theirs.count):
            source, place = self.masks.of(die, first, count), self.asked.of(other, die, first, count)
            end = f".{first}" if first > theirs.first else ""
            yield Task(f"{self.name}[{other}].masks{end}", Engine.TRANSFER, TileCopy(source, place, other, self.number),
                       (source,))

    def received(self, die: int) -> tuple[Buffer, ...]:
        """Places of a die that others write."""
        return (self.asked.buffer(die),) if self.asked.elements.at(die).count else ()


@dataclass(frozen=True)
class DecodeStrings:
    """Fills, or exact words, of what other dies of a cluster have sent of a part."""

    name: str
    node: Node
    part: CodePart | SkipPart
    source: Tiles
    target: Tiles
    strings: PerElement
    #: Of a next part, or of skip code.
    masks: PerElement | None

    def tasks(self, die: int, most: int | None = None) -> Iterator[Task]:
        """The tasks of a die, and what arrives, in program order; pieces in at most ``most`` groups: a task for
        neighbouring elements of a level."""
        assert self.node.tiling is not None
        mine, whole = self.source.at(die), self.target.at(die)
        for low, others in whole.besides(mine):
            for first, count, part in level_runs(self.part, self.node.tiling.form, whole, low, others):
                runs = whole.runs(self.target.buffer(die), first, count)
                strings = self.strings.of(die, first, count)
                masks = None if self.masks is None else self.masks.of(die, first, count)
                yield code_task(f"{self.name}.{first}", Decode(part, strings, runs, masks), self.node)


@dataclass(frozen=True)
class PredictNeeded:
    """Masks of the elements that neurons need which may live behind a part."""

    name: str
    node: Node
    part: CodePart
    tiles: Tiles
    bias: Placed
    masks: PerElement
    #: Maps that are added behind the bias.
    added: Tensor | None

    def tasks(self, die: int, most: int | None = None) -> Iterator[Task]:
        """The tasks of a die, and what arrives, in program order; pieces in at most ``most`` groups."""
        whole = self.tiles.at(die)
        if not whole.words:
            return
        fills, bias, masks = whole.of(self.tiles.buffer(die), 0), self.bias.buffer(die), self.masks.buffer(die)
        added = None if self.added is None else self.added.buffer(die)
        yield Task(self.name, Engine.TRANSFER, Predict(self.node, self.part, fills, whole.plane, bias, masks, added),
                   (fills.repeated(whole.count, whole.plane), bias, *([] if added is None else [added])), (masks,), 1,
                   self.node)


def odd_channels(counts: Sequence[int], parameters: DieParameters) -> int | None:
    """The first number of a layer's channels on a die that dies cannot predict; None: they can all."""
    return next((count for count in counts if count % parameters.within.flit_words), None)


def check_predicted(node: Node, target: Tiles, parameters: DieParameters) -> None:
    """Refuse a layer whose gathers dies cannot predict.

    Raises
    ------
    UserError
        With the layer, and what it lacks.
    """
    if (odd := odd_channels(target.spans.channels.tolist(), parameters)) is not None:
        raise UserError(f"layer {node.name!r} cannot be predicted on dies that have {odd} of its channels: preset "
                        f"{parameters.name!r} takes multiples of {parameters.within.flit_words}; say predict: 0 for "
                        "it, or give it as many")


def add_predicted(step: Step, node: Node, gather: Gather, bias: Placed | None, added: Tensor | None
                  ) -> Masks:
    """Append the operations of a predicted gather; its last masks.

    Parameters
    ----------
    gather : Gather
        What it stands in place of; its exchange counts the first part.
    bias : Placed or None
        What is added to neurons.
    added : Tensor or None
        Maps that are added behind that, of which each die has those that it gathers.

    Raises
    ------
    UserError
        As :func:`check_predicted`.
    """
    source, target, planned, cluster = gather.source, gather.targets[0], gather.planned, gather.cluster
    assert isinstance(source, Tiles) and isinstance(target, Tiles) and cluster is not None
    assert node.tiling is not None
    check_predicted(node, target, step.parameters)
    if bias is None:
        bias = step.reserve(Constant(f"{node.name}.no_bias", ((0.0,) * node.output_channels,)))
        step.constants.append(bias)
    shares = part_shares(node.tiling)
    # Maps of 16 bits round, to the same perhaps, before the pool reads them.
    pooled = node.tiling.pooled and not step.narrow
    masks: PerElement | None = None
    asked: PerMember | None = None
    for number in range(node.tiling.rounds + 1):
        part = CodePart(node.name, number, node.tiling.rounds, node.tiling.outputs, share=shares[number],
                        regions=node.tiling.regions, pooled=pooled)
        end = f".{number}" if number else ""
        strings = step.reserve(PerElement(f"{gather.name}.strings{end}", target, RowWords(length=True, part=part)))
        step.add(CodedGather(planned, gather.name, gather.node, step.next_exchange() if number else gather.number,
                             source, [target], None, not number, cluster, layer=node, part=part, strings=strings,
                             asked=asked, share=shares[number]))
        step.add(DecodeStrings(f"{gather.name}.decode{end}", node, part, source, target, strings, masks))
        if masks is not None and asked is not None and part.exact:
            return Masks(masks, asked)
        masks = step.reserve(PerElement(f"{gather.name}.masks{end}", target, MASK))
        asked = step.reserve(PerMember(f"{gather.name}.asked{end}", source, target, cluster, MASK))
        step.add(PredictNeeded(f"{gather.name}.predict{end}", node, part, target, bias, masks, added))
        step.add(MaskExchange(planned, gather.name, gather.node, step.next_exchange(), target, [source], None, False,
                              cluster, masks=masks, asked=asked))
    raise AssertionError("a predicted gather has a round")


def add_named(step: Step, node: Node, gather: Gather, masks: Masks) -> None:
    """Append the operations of a gather of errors of inputs, of which masks name those that are needed.

    Parameters
    ----------
    gather : Gather
        What it stands in place of.
    masks : Masks
        With which the inputs came: an input that is not in a window is +0, and the ReLU before it lets no error pass.
    """
    source, target, planned = gather.source, gather.targets[0], gather.planned
    assert isinstance(source, Tiles) and isinstance(target, Tiles) and planned.coded is not None
    part = SkipPart(False, skip_share(planned.coded, planned.phase, "gather"))
    strings = step.reserve(PerElement(f"{gather.name}.strings", target, RowWords(length=True, exact=True)))
    step.add(CodedGather(planned, gather.name, gather.node, gather.number, source, [target], None, True,
                         gather.cluster, layer=node, part=part, strings=strings, asked=masks.asked, share=part.share))
    step.add(DecodeStrings(f"{gather.name}.decode", node, part, source, target, strings, masks.gathered))
