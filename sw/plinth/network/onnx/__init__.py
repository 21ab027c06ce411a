"""Networks from ONNX files: shapes only, values of weights are not read.

============== ======================================================================================
`proto.py`     bytes to a checked message; `Node`, with its attributes and errors that name it
`sizes.py`     sizes of tensors that the graph computes for itself (Shape, Gather, Concat, ..., to a Reshape)
`layout.py`    `Value`: which element of a layer's output stands where in a tensor
`graph.py`     `Graph`: layers made so far, what each tensor is, and who owns each initializer
`products.py`  operators with weights: convolutions, products, their biases and normalisation, embeddings
`windows.py`   pools, and means and maxima over a whole map
`views.py`     operators that only regroup: Flatten, Reshape, Squeeze, Identity, Dropout in evaluation, ...
`operators.py` the table of operators, with what of each is supported
`terms.py`     what other operators are called in the field, and what helps
`functions.py` what nodes that work element by element compute together: whether it is a GELU, and which
`patterns.py`  groups of nodes that stand for one thing: an operator that is read, or one that no layer does
`reader.py`    `read_onnx`: nodes in order, one after the other
============== ======================================================================================

Each tensor that nodes read is the output of a layer under a *view*, the dimensions that ONNX gives its elements behind
the batch, and in an *order* of the layer's axes, so that maps may have their channels first or last. A layer of
features is made where a view has one dimension, so that any way to get there (Flatten, Reshape, two Squeezes, a mean
without its axes) gives the same network. A node that is refused does not end the reading: all faults are reported
together. Files are untrusted: external data is never opened, and sizes are limited.
"""
