"""Products as tasks of the systolic machine: GEMM for fully connected layers, CONVOLUTION for the others."""

from dataclasses import dataclass

from plinth.buffers import Buffer
from plinth.machine import convolution
from plinth.machine.convolution import Body, ConvolutionShape, FeatureMap
from plinth.machine.tiles import interleave_m_log2
from plinth_hw.isa.operations import MatrixOperation
from plinth_hw.isa.parameters import DieParameters


@dataclass(frozen=True)
class Systolic:
    """Tasks of a layer's products on a systolic die: groups of bodies, those of a group write different words."""

    parameters: DieParameters
    #: Of the layer, for messages.
    name: str = "a product"

    def operation(self, dense: bool) -> MatrixOperation:
        """The operation code of the tasks of a fully connected layer, or of a convolution."""
        return MatrixOperation.GEMM if dense else MatrixOperation.CONVOLUTION

    def forward(self, layer: ConvolutionShape, x: FeatureMap, w: Buffer, z: FeatureMap) -> list[list[Body]]:
        """``z = x * w``."""
        return [convolution.forward(layer, self.parameters, x, w, z)]

    def input_gradient(self, layer: ConvolutionShape, dz: FeatureMap, w: Buffer, dx: FeatureMap) -> list[list[Body]]:
        """The gradient of ``x``."""
        return [convolution.input_gradient(layer, self.parameters, dz, w, dx)]

    def weight_gradient(self, layer: ConvolutionShape, x: FeatureMap, dz: FeatureMap, dw: Buffer) -> list[list[Body]]:
        """The gradient of ``w``."""
        return [convolution.weight_gradient(layer, self.parameters, x, dz, dw)]

    def dense_forward(self, x: Buffer, w: Buffer, z: Buffer) -> list[list[Body]]:
        """``z = x w``."""
        return self._gemm(x, w, z)

    def dense_input_gradient(self, dz: Buffer, w: Buffer, dx: Buffer) -> list[list[Body]]:
        """``dx = dz w^T``."""
        return self._gemm(dz, w, dx, transpose_b=True)

    def dense_weight_gradient(self, x: Buffer, dz: Buffer, dw: Buffer) -> list[list[Body]]:
        """``dw = x^T dz``."""
        return self._gemm(x, dz, dw, transpose_a=True)

    def _gemm(self, a: Buffer, b: Buffer, c: Buffer, *, transpose_a: bool = False, transpose_b: bool = False,
              ) -> list[list[Body]]:
        return [[{"a": a.pointer, "a_stride": a.stride, "b": b.pointer, "b_stride": b.stride,
                  "c": c.pointer, "c_stride": c.stride, "m": c.rows, "n": c.columns,
                  "k": a.rows if transpose_a else a.columns, "transpose_a": int(transpose_a),
                  "transpose_b": int(transpose_b),
                  "interleave_m_log2": interleave_m_log2(self.parameters, c.rows, c.columns)}]]
