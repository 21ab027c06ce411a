"""Networks: layers, graphs of them, their files (YAML, ONNX), a zoo, and their parameters as arrays."""
