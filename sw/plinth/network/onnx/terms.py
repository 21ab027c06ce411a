"""What operators that are not read are called in the field, and what helps."""

#: Remedies.
_ACTIVATION = "use ReLU, Tanh or Sigmoid in its place"
_NORMALISATION = "use BatchNorm behind a convolution or Linear, exported in evaluation mode, or leave it out"
_LEAVE = "leave it out of the model"
_SAMPLES = "do it to the samples, or leave it out of the model"
_RECURRENT = "use convolutions along the sequence (Conv1d), or dense layers over all of it"
_FLOAT = "export the model before it is quantised"

_GELU = "use its tanh approximation, nn.GELU(approximate='tanh')"
#: Of GELUs that are not read: by the error function, of other constants, and of which more than the end is read.
EXACT_GELU = ("is the activation GELU by the error function, which no layer does; "
              f"{_GELU}, which is off by less than 0.0005")
OTHER_GELU = f"is like the activation GELU, but another function, which no layer does; {_GELU}"
OPEN_GELU = f"is the activation GELU, of which other nodes read a part; {_GELU}, or read what it gives"

#: By operator: what it does, as the field calls it, and a remedy.
TERMS = {
    "Erf": ("is the error function, as of the activation GELU", _GELU),
    **{operator: (f"is the activation {name}", _ACTIVATION) for operator, name in (
        ("PRelu", "PReLU"), ("Elu", "ELU"), ("Selu", "SELU"), ("Celu", "CELU"),
        ("HardSigmoid", "hard sigmoid"), ("HardSwish", "hard swish"), ("Softplus", "softplus"),
        ("Softsign", "softsign"), ("Mish", "Mish"), ("Swish", "SiLU (swish)"),
        ("ThresholdedRelu", "thresholded ReLU"))},
    "LayerNormalization": ("is layer normalisation", _NORMALISATION),
    "RMSNormalization": ("is RMS normalisation", _NORMALISATION),
    "GroupNormalization": ("is group normalisation", _NORMALISATION),
    "InstanceNormalization": ("is instance normalisation, or part of group normalisation", _NORMALISATION),
    "LRN": ("is local response normalisation", _NORMALISATION),
    "LpNormalization": ("is normalisation by a norm", _NORMALISATION),
    "MeanVarianceNormalization": ("is normalisation by mean and variance", _NORMALISATION),
    "LSTM": ("is an LSTM, a recurrent layer", _RECURRENT),
    "GRU": ("is a GRU, a recurrent layer", _RECURRENT),
    "RNN": ("is a recurrent layer", _RECURRENT),
    "Attention": ("is attention, a product of two activations", _LEAVE),
    "ConvTranspose": ("is a transposed convolution", "use convolutions that keep the size, or leave it out"),
    "DeformConv": ("is a deformable convolution", "use a convolution"),
    "Resize": ("is upsampling or resizing", _SAMPLES),
    "Upsample": ("is upsampling", _SAMPLES),
    "GridSample": ("samples a map at computed places", _LEAVE),
    "DepthToSpace": ("is a pixel shuffle", _LEAVE),
    "SpaceToDepth": ("is a pixel unshuffle", _SAMPLES),
    "Split": ("splits a tensor into parts", "give each part its own layer"),
    "LpPool": ("is a pool by a norm", "use a max or average pool"),
    "MaxUnpool": ("undoes a max pool", _LEAVE),
    "MaxRoiPool": ("pools regions of interest", _LEAVE),
    "RoiAlign": ("pools regions of interest", _LEAVE),
    "ReduceSum": ("sums over axes", "use a mean over height and width, or a dense layer"),
    "ReduceProd": ("multiplies over axes, where only sizes of a Reshape are", _LEAVE),
    "Sub": ("subtracts", _SAMPLES),
    "Div": ("divides", _SAMPLES),
    "Pow": ("raises to a power", _LEAVE),
    "Sqrt": ("takes a square root", _LEAVE),
    "Exp": ("is an exponential", "use ReLU, Tanh or Sigmoid in its place"),
    "Where": ("chooses elements by a mask", _LEAVE),
    "Expand": ("repeats elements", _LEAVE),
    "Tile": ("repeats elements", _LEAVE),
    "Einsum": ("is a product of tensors", "use Linear or a convolution"),
    "MatMulInteger": ("is a quantised product", _FLOAT),
    "ConvInteger": ("is a quantised convolution", _FLOAT),
    "QLinearConv": ("is a quantised convolution", _FLOAT),
    "QLinearMatMul": ("is a quantised product", _FLOAT),
    "QuantizeLinear": ("quantises", _FLOAT),
    "DynamicQuantizeLinear": ("quantises", _FLOAT),
    "DequantizeLinear": ("reads quantised numbers", _FLOAT),
    **dict.fromkeys(("If", "Loop", "Scan"), ("decides while the model runs", "export by tracing, with fixed shapes")),
    **dict.fromkeys(("ArgMax", "TopK"), ("chooses the largest element", "end in the scores instead")),
    "GatherElements": ("gathers single elements", _LEAVE),
    "GatherND": ("gathers single elements", _LEAVE),
    "OneHot": ("makes one-hot vectors", "use an embedding (nn.Embedding) of the numbers"),
}

#: Operators that leave the dimensions of their first input as they are: nodes behind them can be checked.
SAME_DIMENSIONS = frozenset(
    operator for operator, (term, _) in TERMS.items() if "activation" in term or "normalisation" in term) | {
    "Sqrt", "Exp", "Pow", "Erf"}


def described(operator: str) -> str:
    """Describe an operator that is not read: what it does, and what helps."""
    term, remedy = TERMS.get(operator, (
        "is an operator that is not read", f"{_LEAVE}, or write it by operators that docs/networks.md lists"))
    return f"{term}, which no layer does; {remedy}"
