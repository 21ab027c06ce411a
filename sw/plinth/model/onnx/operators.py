"""The operators that are read."""

from plinth.model.layers import Add, Join, MaxPool, MeanPool, Relu, Sigmoid, Tanh
from plinth.model.onnx import products, sizes, views, windows
from plinth.model.onnx.graph import Operator

_WINDOW = frozenset({"auto_pad", "dilations", "kernel_shape", "pads", "strides"})
_AXIS = frozenset({"axis"})
_REDUCTION = frozenset({"axes", "keepdims", "noop_with_empty_axes"})
_MOST = Add.arity[1]

#: By name; those without ``read`` only compute sizes for a Reshape.
OPERATORS = {
    "Conv": Operator((2, 3), _WINDOW | {"group"}, products.convolution),
    "Gemm": Operator((2, 3), frozenset({"alpha", "beta", "transA", "transB"}), products.gemm),
    "MatMul": Operator((2, 2), read=products.matmul),
    "Transpose": Operator((1, 1), frozenset({"perm"}), products.transpose),
    "BatchNormalization": Operator((5, 5), frozenset({"epsilon", "momentum", "training_mode"}),
                                   products.batch_normalization),
    "MaxPool": Operator((1, 1), _WINDOW | {"ceil_mode", "storage_order"}, windows.max_pool),
    "AveragePool": Operator((1, 1), _WINDOW | {"ceil_mode", "count_include_pad"}, windows.mean_pool),
    "GlobalMaxPool": Operator((1, 1), read=windows.global_pool(MaxPool)),
    "GlobalAveragePool": Operator((1, 1), read=windows.global_pool(MeanPool)),
    "ReduceMax": Operator((1, 2), _REDUCTION, windows.reduction(MaxPool)),
    "ReduceMean": Operator((1, 2), _REDUCTION, windows.reduction(MeanPool)),
    "Relu": Operator((1, 1), read=windows.activation(Relu)),
    "Tanh": Operator((1, 1), read=windows.activation(Tanh)),
    "Sigmoid": Operator((1, 1), read=windows.activation(Sigmoid)),
    "Add": Operator((2, 2), read=products.add),
    "Sum": Operator((2, _MOST), read=windows.joiner(Add)),
    "Mean": Operator((2, _MOST), read=windows.joiner(Join)),
    "Flatten": Operator((1, 1), _AXIS, views.flatten),
    "Reshape": Operator((2, 2), frozenset({"allowzero"}), views.reshape, sizes.reshape),
    "Squeeze": Operator((1, 2), read=views.squeeze, fold=sizes.squeeze),
    "Unsqueeze": Operator((2, 2), read=views.unsqueeze, fold=sizes.unsqueeze),
    "Gather": Operator((2, 2), _AXIS, products.gather, sizes.gather),
    "Identity": Operator((1, 1), read=views.identity, fold=sizes.same),
    "Dropout": Operator((1, 3), frozenset({"seed"}), views.dropout),
    "Cast": Operator((1, 1), frozenset({"to", "saturate", "round_mode"}), views.cast, sizes.same),
    "Softmax": Operator((1, 1), _AXIS, views.softmax),
    "LogSoftmax": Operator((1, 1), _AXIS, views.softmax),
    "Constant": Operator((0, 0), frozenset({"value", "value_int", "value_ints"}), views.constant),
    "Shape": Operator((1, 1), frozenset({"start", "end"}), views.shape),
    "Slice": Operator((3, 5), read=views.slice_, fold=sizes.slice_),
    "Concat": Operator((1, 16), _AXIS, fold=sizes.concat),
    "Mul": Operator((2, 2), fold=sizes.multiply),
    "ReduceProd": Operator((1, 2), frozenset({"keepdims", "noop_with_empty_axes"}), fold=sizes.product),
}
