"""The operators that are read, and which forms of each; the list in docs/networks.md is made from this table."""

from plinth.network.layers import Add, Join, MaxPool, MeanPool, Relu, Sigmoid, Tanh
from plinth.network.onnx import products, sizes, views, windows
from plinth.network.onnx.graph import Operator

_WINDOW = frozenset({"auto_pad", "dilations", "kernel_shape", "pads", "strides"})
_AXIS = frozenset({"axis"})
_REDUCTION = frozenset({"axes", "keepdims", "noop_with_empty_axes"})
_MOST = Add.arity[1]
_WINDOWS = "1 or 2 dimensions, dilations 1; any pads and auto_pad"
_ANY = "any dimensions"
_SIZES = "sizes for a Reshape or Pad"
_NOTHING = "nothing"

#: By name; those without ``read`` only compute sizes.
OPERATORS = {
    "Conv": Operator((2, 3), _WINDOW | {"group"}, products.convolution, becomes="`convolution`",
                     supported=f"{_WINDOWS}; group 1; weights and bias from the file"),
    "Gemm": Operator((2, 3), frozenset({"alpha", "beta", "transA", "transB"}), products.gemm, becomes="`dense`",
                     supported="of features; alpha and beta 1, transA 0, any transB; weights and bias from the file"),
    "MatMul": Operator((2, 2), read=products.matmul, becomes="`dense`",
                       supported="features @ weights of 2 dimensions from the file"),
    "Gather": Operator((2, 2), _AXIS, products.gather, sizes.gather, "`embedding`",
                       "rows of a table from the file, axis 0, by the graph's input; the only element along any axis: "
                       "nothing; sizes"),
    "Add": Operator((2, 2), read=products.add, becomes="`add`",
                    supported="two layers of equal dimensions; a constant behind a MatMul, Conv or scale without a "
                    "bias, one element a channel: its bias"),
    "Sum": Operator((2, _MOST), read=windows.joiner(Add), becomes="`add`", supported="layers of equal dimensions"),
    "Mean": Operator((2, _MOST), read=windows.joiner(Join), becomes="`join`", supported="layers of equal dimensions"),
    "BatchNormalization": Operator(
        (5, 5), frozenset({"epsilon", "momentum", "training_mode"}), products.batch_normalization,
        becomes="the bias of the layer before, or `affine`",
        supported="evaluation form, channels first; its bias, behind a Conv, Gemm or MatMul that nothing else reads"),
    "MaxPool": Operator((1, 1), _WINDOW | {"ceil_mode", "storage_order"}, windows.max_pool, becomes="`max-pool`",
                        supported=f"{_WINDOWS}; any ceil_mode, unless a window has nothing but what a Pad gives; "
                                  "no indices"),
    "AveragePool": Operator((1, 1), _WINDOW | {"ceil_mode", "count_include_pad"}, windows.mean_pool,
                            becomes="`mean-pool`",
                            supported=f"{_WINDOWS}; any ceil_mode; count_include_pad 0 where there is padding"),
    "GlobalMaxPool": Operator((1, 1), read=windows.global_pool(MaxPool), becomes="`max-pool`",
                              supported="1 or 2 dimensions"),
    "GlobalAveragePool": Operator((1, 1), read=windows.global_pool(MeanPool), becomes="`mean-pool`",
                                  supported="1 or 2 dimensions"),
    "ReduceMax": Operator((1, 2), _REDUCTION, windows.reduction(MaxPool), becomes="`max-pool`",
                          supported="axes of height, width or both, in any layout; any keepdims"),
    "ReduceMean": Operator((1, 2), _REDUCTION, windows.reduction(MeanPool), becomes="`mean-pool`",
                           supported="axes of height, width or both, in any layout; any keepdims"),
    "Relu": Operator((1, 1), read=windows.activation(Relu), becomes="`relu`", supported=_ANY),
    "LeakyRelu": Operator((1, 1), frozenset({"alpha"}), windows.leaky_relu, becomes="`leaky-relu`",
                          supported=f"{_ANY}; alpha above 0 and below 1"),
    "Clip": Operator((1, 3), read=windows.clip, becomes="`relu6` or `relu`",
                     supported=f"{_ANY}; from 0 to 6, or from 0, numbers of the file"),
    "Gelu": Operator((1, 1), frozenset({"approximate"}), windows.gelu, becomes="`gelu`",
                     supported=f"{_ANY}; approximate tanh; the nodes that exporters write for it below opset 20"),
    "Tanh": Operator((1, 1), read=windows.activation(Tanh), becomes="`tanh`", supported=_ANY),
    "Sigmoid": Operator((1, 1), read=windows.activation(Sigmoid), becomes="`sigmoid`", supported=_ANY),
    "Softmax": Operator((1, 1), _AXIS, views.softmax, becomes="the loss",
                        supported="at the end, of features, axis 1 or -1"),
    "LogSoftmax": Operator((1, 1), _AXIS, views.softmax, becomes="the loss",
                           supported="at the end, of features, axis 1 or -1"),
    "Flatten": Operator((1, 1), _AXIS, views.flatten, becomes="`flatten`", supported="axis 1"),
    "Reshape": Operator((2, 2), frozenset({"allowzero"}), views.reshape, sizes.reshape, "`flatten` or nothing",
                        "the batch stays first; the shape from the file or computed of sizes; any allowzero"),
    "Squeeze": Operator((1, 2), read=views.squeeze, fold=sizes.squeeze, becomes="`flatten` or nothing",
                        supported="axes of 1 behind the batch, from the file; sizes"),
    "Unsqueeze": Operator((2, 2), read=views.unsqueeze, fold=sizes.unsqueeze, becomes=_NOTHING,
                          supported="axes behind the batch, from the file; sizes"),
    "Transpose": Operator((1, 1), frozenset({"perm"}), products.transpose, sizes.transpose, _NOTHING,
                          "the batch stays first, axes stay whole, as between NCHW and NHWC; of weights any perm"),
    "Pad": Operator((2, 4), frozenset({"mode"}), views.pad,
                    becomes="padding of a `convolution` or `max-pool`",
                    supported="at height and width, zeros in front of a Conv, -inf in front of a MaxPool; pads from "
                    "the file or computed of sizes"),
    "Slice": Operator((3, 5), read=views.slice_, fold=sizes.slice_, becomes=_NOTHING,
                      supported="of all there is, step 1; of sizes steps of 1 and -1"),
    "Identity": Operator((1, 1), read=views.identity, fold=sizes.same, becomes=_NOTHING,
                         supported="of layers, weights and sizes"),
    "Dropout": Operator((1, 3), frozenset({"seed"}), views.dropout, becomes=_NOTHING, supported="evaluation form"),
    "Cast": Operator((1, 1), frozenset({"to", "saturate", "round_mode"}), views.cast, sizes.same, _NOTHING,
                     "row numbers of an embedding, and sizes, to integers"),
    "Constant": Operator((0, 0), frozenset({"value", "value_int", "value_ints"}), views.constant, becomes=_NOTHING,
                         supported="a tensor, or integers"),
    "Shape": Operator((1, 1), frozenset({"start", "end"}), views.shape, becomes=_SIZES, supported=_ANY),
    "ConstantOfShape": Operator((1, 1), frozenset({"value"}), fold=sizes.filled, becomes=_SIZES,
                                supported="lists of integers"),
    "Concat": Operator((1, _MOST), _AXIS, windows.concat, sizes.concat, "`concat`",
                       "channels of layers' maps, in any layout, or features that are no flattened map; sizes"),
    "Mul": Operator((2, 2), read=products.multiply, fold=sizes.multiply,
                    becomes="the bias of the layer before, or `affine`",
                    supported="a constant, one element a channel; with an Add behind it its bias, behind a Conv, Gemm "
                    "or MatMul that nothing else reads; sizes"),
    "ReduceProd": Operator((1, 2), frozenset({"keepdims", "noop_with_empty_axes"}), fold=sizes.product, becomes=_SIZES,
                           supported="lists"),
}
