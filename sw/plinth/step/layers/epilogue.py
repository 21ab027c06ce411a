"""Layers behind a node's sum, which each die applies to what it owns of the output: what kinds of them share."""

from abc import ABC, abstractmethod
from typing import ClassVar

from plinth.network.layers import Layer
from plinth.partition.graph import Epilogue, Node
from plinth.step.operations import Sweep
from plinth.step.step import Step
from plinth.step.tensors import Tensor
from plinth.step.vector import VectorProgram


def narrow_map(step: Step, number: int) -> bool:
    """Whether the maps of a node are narrow: unless tiles are made of the last one, and the matrix engine reads it in
    no other way."""
    graph = step.graph
    readers = [graph.nodes[graph.edges[edge].consumer] for edge in graph.outputs[number]]
    tiled = any(node.tiling is not None for node in readers)
    return step.narrow and not (tiled and not any(node.weighted and node.tiling is None for node in readers))


class EpilogueLayer(ABC):
    """Builds the vector work of a layer behind a node's sum: on the node's map, and on the map's error.

    Parameters
    ----------
    packed : bool
        Whether what it gives is narrow.
    images : bool
        Whether the node's vector work goes in strips of whole images.
    """

    #: Whether it works on whole images, so that all of its node's vector work goes in strips of them.
    by_images: ClassVar[bool] = False
    #: Whether its slope jumps somewhere; the host then reads the map that tells where.
    kinked: ClassVar[bool] = False

    layer: Layer
    #: The maps that it reads and gives, once it went forwards.
    source: Tensor
    target: Tensor

    def __init__(self, step: Step, node: Node, epilogue: Epilogue, packed: bool, images: bool):
        self.step, self.node, self.epilogue, self.packed, self.images = step, node, epilogue, packed, images
        self.layer, self.name = epilogue.layer, epilogue.name

    @abstractmethod
    def forward(self, source: Tensor) -> Tensor:
        """Append its work on a map; the map that it gives."""

    @abstractmethod
    def backward(self, error: Tensor) -> Tensor:
        """Append its work on the error of the map that it gives; the error of the map that it reads."""


class ElementwiseLayer(EpilogueLayer):
    """An epilogue that works on each element by itself. The first one behind a sum goes with the program that makes the
    sum, and its backward part with that of the bias gradient; others have programs of their own."""

    #: Full regions that :meth:`back` needs, and that :meth:`apply` needs beside its source.
    regions: ClassVar[int] = 2
    further: ClassVar[int] = 0
    #: Whether :meth:`back` is from what the layer reads, which is kept then, instead of what it gives.
    keeps_input: ClassVar[bool] = False

    @abstractmethod
    def apply(self, program: VectorProgram, target: str, source: str) -> None:
        """Region ``target`` becomes the layer of region ``source``, which may be the same unless the input is kept."""

    @abstractmethod
    def back(self, program: VectorProgram, error: str, kept: str) -> None:
        """Region ``error``, of what the layer gives, becomes that of what it reads; ``kept`` is what was kept, and may
        be used up."""

    @property
    def kept(self) -> Tensor:
        """The map that backward reads."""
        return self.source if self.keeps_input else self.target

    def run(self, program: VectorProgram) -> str:
        """The region with the layer of region "z", which is left as it is if the input is kept."""
        region = "y" if self.keeps_input else "z"
        self.apply(program, region, "z")
        return region

    def go_with(self, output: Tensor) -> Tensor:
        """Where it goes with the sum ``output``: over it, unless that is kept."""
        target = output
        if self.keeps_input:
            target = self.step.reserve(output.like(f"{self.name}.output", packed=output.packed))
        return self._maps(output, target)

    def _maps(self, source: Tensor, target: Tensor) -> Tensor:
        self.source, self.target = source, target
        if self.kinked:
            self.step.maps.setdefault(self.name, []).append(target)
        return target

    def forward(self, source: Tensor) -> Tensor:
        step = self.step
        target = self._maps(source, step.reserve(source.like(f"{self.name}.output", packed=self.packed)))
        program = VectorProgram(step.parameters)
        program.load("z", source)
        program.store(self.run(program), target)
        step.hold(Sweep(f"{self.name}.forward", self.node, step.parameters, program, program, source, 1 + self.further,
                        images=self.images))
        return target

    def backward(self, error: Tensor) -> Tensor:
        step = self.step
        source_error = step.reserve(self.source.like(f"{self.name}.error"))
        program = VectorProgram(step.parameters)
        program.load("d", error)
        program.load("y", self.kept)
        self.back(program, "d", "y")
        program.store("d", source_error)
        step.hold(Sweep(self.name, self.node, step.parameters, program, program, error, self.regions, 0,
                        images=self.images))
        return source_error
