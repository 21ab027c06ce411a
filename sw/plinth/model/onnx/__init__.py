"""Networks from ONNX files: shapes only, values of weights are not read.

============== ======================================================================================
`proto.py`     bytes to a checked message; `Node`, with its attributes and errors that name it
`sizes.py`     sizes of tensors that the graph computes for itself (Shape, Gather, Concat, ..., to a Reshape)
`graph.py`     `Graph`: layers made so far, what each tensor is, and who owns each initializer
`products.py`  operators with weights: convolutions, products, their biases and normalisation, embeddings
`windows.py`   pools, and means and maxima over a whole map
`views.py`     operators that only regroup: Flatten, Reshape, Squeeze, Identity, Dropout in evaluation, ...
`operators.py` the table of operators
`reader.py`    `read_onnx`: nodes in order, one after the other
============== ======================================================================================

Maps are NCHW in ONNX. Each tensor that nodes read is the output of a layer under a *view*: the dimensions that ONNX
gives its elements behind the batch. A layer of features is made where a view has one dimension, so that any way to
get there (Flatten, Reshape, two Squeezes, a mean without its axes) gives the same network. Files are untrusted:
external data is never opened, and sizes are limited.
"""
