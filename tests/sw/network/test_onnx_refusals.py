"""What cannot be read: all of it at once, each fault under its name in the field and with a remedy.

Small files of one operator or group of nodes each, between a convolution and a dense layer.
"""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.support.onnx_models import every_operator, model, node, read, shape_of, weights

from plinth import cli
from plinth.errors import UserError
from plinth.network.onnx.operators import OPERATORS
from plinth.network.onnx.reader import MAXIMUM_FAULTS
from plinth.network.onnx.terms import TERMS

Nodes = list[onnx.NodeProto]


def number(name: str, value: float) -> TensorProto:
    return onnx.numpy_helper.from_array(np.array(value, dtype=np.float32), name)


TENSORS = [weights("c.w", 4, 3, 3, 3), weights("c.b", 4), onnx.numpy_helper.from_array(np.ones(4, np.float32), "s"),
           weights("c2.w", 4, 3, 3, 3), weights("h.w", 144, 5), weights("k", 4, 4, 3, 3),
           weights("k.8", 4, 8, 3, 3),
           weights("k.group", 4, 2, 3, 3), weights("k.depth", 4, 1, 3, 3), weights("k.3d", 4, 4, 1, 3, 3),
           weights("v", 6, 6), weights("scale", 4, 1, 1), number("half", 0.5), number("one", 1),
           number("root", 1.4142135), number("cube", 3), number("two", 2), number("epsilon", 1e-5),
           number("cubic", 0.044715), number("inner", 0.7978846),
           shape_of("heads", 0, 2, 2, 36),
           shape_of("sequence", 0, 4, 36), shape_of("third", 3), shape_of("chosen", 1),
           shape_of("pads", *(0, 0, 1, 1) * 2), shape_of("halves", 2, 2),
           onnx.numpy_helper.from_array(np.array(True), "yes"),
           onnx.numpy_helper.from_array(np.array(1), "place"), weights("lstm.w", 1, 16, 36),
           weights("lstm.r", 1, 16, 4)]


def graph(nodes: Nodes, *, opset: int = 20) -> onnx.ModelProto:
    """A convolution and its ReLU "r" of 4x6x6, some nodes up to "f", and a product."""
    return model([node("Conv", ["x", "c.w", "c.b"], "c"), node("Relu", ["c"], "r"), *nodes,
                  node("Flatten", ["f"], "flat"), node("Gemm", ["flat", "h.w"], "out")], TENSORS, opset=opset,
                 size=("batch", 3, 8, 8))


def faults(tmp_path, model: onnx.ModelProto, loss: str | None = None) -> list[str]:
    """One line a fault; none if the file is read."""
    try:
        read(tmp_path, model, loss)
    except UserError as error:
        assert str(error).startswith(f"{tmp_path / 'net.onnx'}: ")
        lines = list(error.notes)
        assert not lines or str(error).endswith(f"net.onnx: {len(lines)} faults, a line each")
        lines = lines or [str(error).removeprefix(f"{tmp_path / 'net.onnx'}: ")]
        assert all(line.isprintable() and ";" in line for line in lines), lines
        return lines
    return []


def chain(*operators: tuple[str, str] | str, source: str = "r") -> Nodes:
    """Nodes one behind the other, each with a constant or alone, that end in "f"."""
    nodes = []
    for count, entry in enumerate(operators, start=1):
        operator, constant = entry if isinstance(entry, tuple) else (entry, "")
        name = "f" if count == len(operators) else f"{operator.lower()}{count}"
        nodes.append(node(operator, [source, constant] if constant else [source], name))
        source = name
    return nodes


GELU = [node("Div", ["r", "root"], "g1"), node("Erf", ["g1"], "g2"), node("Add", ["g2", "one"], "g3"),
        node("Mul", ["r", "g3"], "g4"), node("Mul", ["g4", "half"], "f")]
CUBIC = [node("Pow", ["r", "cube"], "g1"), node("Mul", ["g1", "half"], "g2"), node("Add", ["r", "g2"], "g3"),
         node("Mul", ["g3", "half"], "g4"), node("Tanh", ["g4"], "g5"), node("Add", ["g5", "one"], "g6"),
         node("Mul", ["r", "half"], "g7"), node("Mul", ["g7", "g6"], "f")]
GELU_BY_TANH = [node("Pow", ["r", "cube"], "g1"), node("Mul", ["g1", "cubic"], "g2"), node("Add", ["r", "g2"], "g3"),
                node("Mul", ["g3", "inner"], "g4"), *CUBIC[4:]]
NORM = [node("ReduceMean", ["r"], "n1", axes=[-1]), node("Sub", ["r", "n1"], "n2"), node("Pow", ["n2", "two"], "n3"),
        node("ReduceMean", ["n3"], "n4", axes=[-1]), node("Add", ["n4", "epsilon"], "n5"), node("Sqrt", ["n5"], "n6"),
        node("Div", ["n2", "n6"], "n7"), node("Mul", ["n7", "s"], "n8"), node("Add", ["n8", "s"], "f")]
ATTENTION = [node("MatMul", ["r", "r"], "q"), node("Mul", ["q", "half"], "scaled"), node("Softmax", ["scaled"], "p"),
             node("MatMul", ["p", "r"], "f")]
SHUFFLE = [node("Reshape", ["r", "heads"], "s1"), node("Transpose", ["s1"], "s2", perm=[0, 2, 1, 3]),
           node("Flatten", ["s2"], "f")]

#: By what they are called: nodes, and what each line must have.
REFUSED: dict[str, tuple[Nodes, list[str]]] = {
    "SiLU": ([node("Sigmoid", ["r"], "g"), node("Mul", ["r", "g"], "f")],
             [r"2 nodes up to 'f' (Sigmoid, Mul): is the activation SiLU (swish), x * sigmoid(x)"]),
    "SiLU, factors exchanged": ([node("Sigmoid", ["r"], "g"), node("Mul", ["g", "r"], "f")], ["SiLU"]),
    "hard swish": ([node("HardSigmoid", ["r"], "g"), node("Mul", ["r", "g"], "f")], ["hard swish"]),
    "Mish": ([node("Softplus", ["r"], "a"), node("Tanh", ["a"], "b"), node("Mul", ["r", "b"], "f")],
             ["3 nodes up to 'f' (Softplus, Tanh, Mul): is the activation Mish"]),
    "GELU": (GELU, ["5 nodes up to 'f' (Div, Erf, Add, Mul): is the activation GELU by the error function, which no "
                    "layer does; use its tanh approximation, nn.GELU(approximate='tanh')"]),
    "GELU of opset 20": ([node("Gelu", ["r"], "f")], ["node 'f' (Gelu): is the activation GELU by the error function"]),
    "GELU by what there is not": ([node("Gelu", ["r"], "f", approximate="erf")], ["only 'tanh' is supported"]),
    "GELU of other constants": (CUBIC, ["8 nodes up to 'f' (Mul, Add, Pow, Tanh): is like the activation GELU"]),
    "a part of a GELU": ([*GELU_BY_TANH[:-1], node("Mul", ["g7", "g6"], "h"), node("Add", ["h", "g3"], "f")],
                         ["up to 'h' (Mul, Add, Pow, Tanh): is the activation GELU, of which other nodes read a part"]),
    "bounds": (chain(("Clip", "one")), ["(Clip): clips its input to 1.0 .. inf; only from 0 on (ReLU) and to 0 .. 6"]),
    "upper bound": ([helper.make_node("Clip", ["r", "", "half"], ["f"], name="f")], ["input to -inf .. 0.5; only"]),
    "a bound of a layer": ([node("Clip", ["r", "c"], "f")], ["its min is no number that the file holds"]),
    "a slope": ([node("LeakyRelu", ["r"], "f", alpha=1.5)],
                ["its alpha is 1.5; only numbers above 0 and below 1"]),
    "layer normalisation": (NORM, ["up to 'f' (Sqrt, Add, ReduceMean, Pow, Sub, Div, Mul): is layer normalisation"]),
    "group normalisation": (
        [node("Reshape", ["r", "heads"], "n1"), node("InstanceNormalization", ["n1", "s", "s"], "n2"),
         node("Reshape", ["n2", "sequence"], "n3"), node("Mul", ["n3", "scale"], "n4"),
         node("Add", ["n4", "scale"], "f")],
        ["5 nodes up to 'f' (Reshape, InstanceNormalization, Mul, Add): is group normalisation"]),
    "attention": (ATTENTION, ["4 nodes up to 'f' (Softmax, Mul, MatMul): is attention, softmax(q k) v"]),
    "product of activations": ([node("MatMul", ["r", "r"], "f")], ["is a product of two activations, as in attention"]),
    "weights on the left": ([node("MatMul", ["v", "r"], "f")], ["has its weights on the left"]),
    "dense at positions": ([node("MatMul", ["r", "v"], "f")], ["is a dense layer at each of [4, 6] positions"]),
    "LSTM": ([node("Reshape", ["r", "sequence"], "q"), node("Transpose", ["q"], "t", perm=[1, 0, 2]),
              node("LSTM", ["t", "lstm.w", "lstm.r"], "l", hidden_size=4), node("Squeeze", ["l", "chosen"], "f")],
             ["2 nodes up to 'l' (LSTM, Transpose): is an LSTM, a recurrent layer"]),
    "GRU with its initial state": (
        [node("Shape", ["r"], "g1"), node("Expand", ["half", "g1"], "g2"),
         helper.make_node("GRU", ["r", "lstm.w", "lstm.r", "", "", "g2"], ["f"], name="f")],
        ["3 nodes up to 'f' (GRU, Expand, Shape): is a GRU"]),
    "time-major": ([node("Transpose", ["r"], "f", perm=[1, 0, 2, 3])], ["moves the batch"]),
    "grouped": ([node("Conv", ["r", "k.group"], "f", group=2, pads=[1] * 4)], ["is a grouped convolution, group 2"]),
    "depthwise": ([node("Conv", ["r", "k.depth"], "f", group=4, pads=[1] * 4)],
                  ["is a depthwise convolution, group 4"]),
    "bias behind what is refused": ([node("Conv", ["r", "k.group"], "d", group=2, pads=[1] * 4),
                                     node("Add", ["d", "scale"], "f")], ["is a grouped convolution"]),
    "dilated": ([node("Conv", ["r", "k"], "f", dilations=[2, 2], pads=[2] * 4)], ["dilations [2, 2]"]),
    "two at once": ([node("Conv", ["r", "k.group"], "f", group=2, dilations=[2, 2], pads=[1, 2, 3, 2])],
                    ["grouped", "dilated"]),
    "Conv3d": ([node("Conv", ["r", "k.3d"], "f")], ["over three dimensions (Conv3d)"]),
    "transposed convolution": ([node("ConvTranspose", ["r", "k"], "f")], ["is a transposed convolution"]),
    "upsampling": ([node("Resize", ["r", "", "", "halves"], "f")], ["is upsampling or resizing"]),
    "means that count padding": ([node("AveragePool", ["r"], "f", kernel_shape=[3, 3], pads=[1] * 4,
                                       count_include_pad=1)], ["count_include_pad=False"]),
    "concatenation of samples": ([node("Concat", ["r", "c"], "f", axis=0)], ["concatenates along the batch (axis 0)"]),
    "concatenation of rows": ([node("Concat", ["r", "c"], "f", axis=2)],
                              ["concatenates along axis 2 of [4, 6, 6] behind the batch, which are no channels"]),
    "concatenation of unlike maps": (
        [node("MaxPool", ["r"], "p", kernel_shape=[2, 2], strides=[2, 2]), node("Concat", ["r", "p"], "f", axis=1)],
        ["needs equal dimensions but along axis 1, not [4, 6, 6] and [4, 3, 3]"]),
    "concatenation of flattened maps": (
        [node("Flatten", ["r"], "a"), node("Flatten", ["c"], "b"), node("Concat", ["a", "b"], "f", axis=1)],
        ["concatenates along axis 1 of [144] behind the batch, which are no channels"]),
    "concatenation of layouts": (
        [node("Transpose", ["r"], "t", perm=[0, 1, 3, 2]), node("Concat", ["c", "t"], "f", axis=1)],
        ["concatenates along axis 1 of [4, 6, 6] behind the batch, which are no channels of maps in one layout"]),
    "pixel shuffle": ([node("DepthToSpace", ["r"], "f", blocksize=2)], ["is a pixel shuffle"]),
    "channel shuffle": (SHUFFLE, ["reorders parts of an axis"]),
    "gate": ([node("GlobalAveragePool", ["r"], "g1"), node("Sigmoid", ["g1"], "g2"), node("Mul", ["r", "g2"], "f")],
             ["multiplies by a gate, x * sigmoid(y), as squeeze-and-excitation"]),
    "product": ([node("Mul", ["r", "c"], "f")], ["multiplies two activations element by element"]),
    "scale": ([node("Mul", ["r", "half"], "f")], ["scales by a constant that is none for each channel"]),
    "scaled samples": ([node("Mul", ["x", "half"], "m"), node("Conv", ["m", "c2.w"], "f")],
                       ["scale the samples instead"]),
    "shift": ([node("Add", ["r", "scale"], "f")], ["adds a constant"]),
    "subtraction": ([node("Sub", ["r", "c"], "f")], ["subtracts"]),
    "batch normalisation in training form": (
        [node("BatchNormalization", ["c", *["s"] * 4], "f", training_mode=1)], ["training form"]),
    "batch normalisation of wrong sizes": (
        [node("BatchNormalization", ["r", *["v"] * 4], "f")], ["the scale must be an initializer of 4 elements"]),
    "dropout in training form": ([node("Dropout", ["r", "", "yes"], "f")], ["drops elements (training form)"]),
    "a position": ([node("Gather", ["r", "place"], "f", axis=2)], ["takes elements out"]),
    "softmax over the batch": ([node("Flatten", ["r"], "g"), node("Softmax", ["g"], "f", axis=0)],
                               ["goes over the samples of the batch (axis 0)"]),
    "softmax over channels": ([node("Softmax", ["r"], "f", axis=1)], ["gives a map"]),
    "quantised": ([node("QuantizeLinear", ["r", "half"], "f")], ["export the model before it is quantised"]),
    "sizes of what is not read": (
        [node("Shape", ["r"], "s1"), node("Constant", [], "s2", value_ints=[1]), node("Mod", ["s1", "s2"], "s3"),
         node("Slice", ["s1", "s3", "s2"], "s4"), node("Concat", ["s4", "s3"], "s5", axis=0),
         node("Reshape", ["r", "s5"], "f")], ["(Mod): is an operator that is not read"]),
    "another domain": ([helper.make_node("FusedConv", ["r"], ["f"], name="f", domain="com.microsoft")],
                       ["(com.microsoft.FusedConv): is an operator that is not read"]),
    "unknown": ([node("Bernoulli", ["r"], "f")], ["is an operator that is not read"]),
    "an attribute": ([node("Relu", ["r"], "f", alpha=0.5)], ["attribute 'alpha' is not supported"]),
    "many": ([node("PRelu", ["r", "s"], "a"), node("Conv", ["a", "k.group"], "b", group=2, pads=[1] * 4),
              node("Gelu", ["b"], "d"), node("BatchNormalization", ["d", *["s"] * 4], "e"),
              node("AveragePool", ["e"], "g", kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1),
              node("Elu", ["g"], "f")],
             ["PReLU", "grouped", "GELU", "count_include_pad", "ELU"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_all_faults_are_named(tmp_path, name: str) -> None:
    nodes, needles = REFUSED[name]
    lines = faults(tmp_path, graph(nodes))
    assert len(lines) == len(needles), lines
    for line, needle in zip(lines, needles, strict=True):
        assert needle in line


#: Forms that must be accepted, beside those of the other files of tests: one of each operator that is read.
ACCEPTED: dict[str, Nodes] = {
    "Conv": [node("Conv", ["r", "k"], "f", pads=[1] * 4)],
    "Conv, auto_pad": [node("Conv", ["r", "k"], "f", auto_pad="SAME_UPPER", group=1, dilations=[1, 1])],
    "Conv behind a Pad": [node("Pad", ["r", "pads"], "p"), node("Conv", ["p", "k"], "f")],
    "MaxPool": [node("MaxPool", ["r"], "f", kernel_shape=[3, 3], pads=[1] * 4)],
    "AveragePool": [node("AveragePool", ["r"], "f", kernel_shape=[3, 3], pads=[1] * 4)],
    "Relu": chain("Relu"), "Tanh": chain("Tanh"), "Sigmoid": chain("Sigmoid"),
    "Gelu": [node("Gelu", ["r"], "f", approximate="tanh")], "GELU by tanh": GELU_BY_TANH,
    "Identity": chain("Identity"), "Dropout": chain("Dropout"), "activations": chain("Tanh", "Relu", "Sigmoid"),
    "Add": [node("Add", ["r", "c"], "f")], "Add of one": [node("Add", ["r", "r"], "f")],
    "Sum": [node("Sum", ["r", "c", "r"], "f")],
    "Mean": [node("Mean", ["r", "c"], "f")], "Concat of one": [node("Concat", ["r"], "f", axis=1)],
    "Concat": [node("Concat", ["r", "c"], "g", axis=-3), node("Conv", ["g", "k.8"], "f", pads=[1] * 4)],
    "BatchNormalization": [node("Conv", ["r", "k"], "d", pads=[1] * 4),
                           node("BatchNormalization", ["d", *["s"] * 4], "f")],
    "bias": [node("Conv", ["r", "k"], "d", pads=[1] * 4), node("Add", ["d", "scale"], "f")],
    "Transpose": [node("Transpose", ["r"], "f", perm=[0, 2, 3, 1])],
    "Transpose there and back": [node("Transpose", ["r"], "t", perm=[0, 2, 3, 1]),
                                 node("Transpose", ["t"], "f", perm=[0, 3, 1, 2])],
    "Reshape": [node("Reshape", ["r", "sequence"], "f")],
    "Unsqueeze": [node("Unsqueeze", ["r", "third"], "u"), node("Squeeze", ["u", "third"], "f")],
    "Slice of all": [node("Constant", [], "zero", value_ints=[0]), node("Constant", [], "end", value_ints=[99]),
                     node("Slice", ["r", "zero", "end", "third"], "f")],
    "sizes": [node("Shape", ["r"], "z"), node("Constant", [], "zero", value_ints=[0]),
              node("Gather", ["z", "zero"], "n"), node("Constant", [], "rest", value_ints=[144]),
              node("Mul", ["rest", "chosen"], "m"), node("Concat", ["n", "m"], "t", axis=0),
              node("Reshape", ["r", "t"], "f")],
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_operators_suffice_for_is_accepted(tmp_path, name: str) -> None:
    assert faults(tmp_path, graph(ACCEPTED[name])) == []


def test_every_operator_of_the_standard_is_read_or_refused_in_one_line(tmp_path) -> None:
    operators = {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == "" and not schema.deprecated}
    assert set(OPERATORS) <= operators
    assert set(TERMS) - set(OPERATORS) <= operators | {"Upsample"}
    for operator in sorted(operators - set(OPERATORS)):
        lines = faults(tmp_path, graph([node(operator, ["r", "c"], "f")]))
        assert lines[0].startswith(f"node 'f' ({operator}): ") and len(lines) == 1, lines


def test_a_hostile_file_has_a_bounded_list(tmp_path, capsys) -> None:
    nodes = [node("Gelu", ["x" if count == 0 else f"g{count - 1}"], f"g{count}") for count in range(3000)]
    proto = model([*nodes, node("Relu", ["g2999"], "out")])
    with pytest.raises(UserError) as caught:
        read(tmp_path, proto)
    assert str(caught.value).endswith("net.onnx: 3000 faults, a line each")
    assert len(caught.value.notes) == MAXIMUM_FAULTS + 1 and caught.value.notes[-1] == "and 2980 more"
    with pytest.raises(SystemExit) as ended:
        cli.main(["plan", str(tmp_path / "net.onnx")])
    lines = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2 and len(lines) == MAXIMUM_FAULTS + 2
    assert lines[0].startswith("plinth: error: ") and lines[1].startswith("  node 'g0' (Gelu): is the activation GELU")


def test_faults_of_the_graph_stand_beside_those_of_nodes(tmp_path) -> None:
    proto = graph([node("Add", ["r", "state"], "a"), node("Gelu", ["a"], "f")])
    proto.graph.input.add(name="state")
    proto.graph.output.add(name="a")
    lines = faults(tmp_path, proto)
    assert [line.split(";")[0] for line in lines] == [
        "has 2 inputs", "has 2 outputs",
        "node 'f' (Gelu): is the activation GELU by the error function, which no layer does"]
    proto = graph([node("Conv", ["r", "k"], "d", dilations=[2, 2]), node("Elu", ["d"], "f")])
    proto.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "height"
    lines = faults(tmp_path, proto)
    for needle, line in zip(("dynamic dimension", "dilations [2, 2]", "ELU"), lines, strict=True):
        assert needle in line


def test_groups_of_nodes_that_are_cut_off_are_refused_all_the_same(tmp_path) -> None:
    # Inputs that are missing, or the same tensor throughout, at every node of every group.
    for nodes in (GELU, CUBIC, NORM, ATTENTION, *(REFUSED[name][0] for name in (
            "SiLU", "Mish", "group normalisation", "LSTM", "GRU with its initial state"))):
        for place, entry in enumerate(nodes):
            for inputs in ([], [""], ["r"], ["f", "f"], ["one", "one"], list(entry.input)[::-1]):
                changed = [onnx.NodeProto.FromString(other.SerializeToString()) for other in nodes]
                del changed[place].input[:]
                changed[place].input.extend(inputs)
                try:
                    read(tmp_path, graph(changed))
                except UserError as error:
                    assert all(line.isprintable() for line in (str(error), *error.notes))


def test_commands_tell_what_is_left_out(tmp_path, capsys) -> None:
    proto = model([node("Gemm", ["x", "w", "b"], "fc1"), node("BatchNormalization", ["fc1", *["s"] * 4], "n"),
                   node("Dropout", ["n"], "d"), node("Relu", ["d"], "r"), node("Gemm", ["r", "v"], "fc2")],
                  [weights("w", 64, 4), weights("b", 4), weights("v", 4, 10), TENSORS[2]],
                  size=("batch", 64), output="fc2")
    path = tmp_path / "net.onnx"
    path.write_bytes(proto.SerializeToString())
    cli.main(["plan", str(path), "--array", "ring-2", "--json"])
    written = capsys.readouterr()
    assert json.loads(written.out)["network"] == "net"
    told = written.err.splitlines()
    assert len(told) == 1 and told[0].startswith(f"note: {path}: 1 BatchNormalization ('n') folded into")
    assert "; 1 Dropout ('d') left out: nothing is dropped" in told[0]
    cli.main(["simulate", str(path), "--array", "ring-2"])
    assert capsys.readouterr().err.startswith(told[0])
    cli.main(["train", str(path), "--device", "golden", "--dies", "1", "--steps", "1", "--out", str(tmp_path / "out")])
    assert told[0] in capsys.readouterr().err
    notes = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))["notes"]
    assert [note.split(" (")[0] for note in notes] == ["1 BatchNormalization", "1 Dropout"]


def test_what_is_left_out_is_told(tmp_path) -> None:
    proto = graph([node("Conv", ["r", "k"], "d", pads=[1] * 4), node("BatchNormalization", ["d", *["s"] * 4], "e"),
                   node("Dropout", ["e"], "g"), node("Identity", ["g"], "h"), node("Dropout", ["h"], "f"),
                   node("Gelu", ["h"], "unread")])
    network = read(tmp_path, proto)
    assert network.notes == (
        "1 BatchNormalization ('e') folded into the layers before, whose bias and weights take it up: nothing is "
        "normalised while training",
        "2 Dropout ('g', 'f') left out: nothing is dropped while training",
        "1 Identity ('h') left out: nothing changes", "1 node ignored that reaches no output")
    assert read(tmp_path, graph(ACCEPTED["Conv"])).notes == ()
    notes = read(tmp_path, every_operator()[0]).notes
    assert any(note.startswith("1 Pad ('padded') made the padding") for note in notes)
