"""Networks: what is trained.

``variables`` and ``shape`` are what ``layers`` have, ``network`` joins these, ``file`` and ``onnx`` read and write
them, ``zoo`` has some by name; ``parameters`` are their arrays by name, ``winograd`` makes kernels tiles and back.
``sparse`` is apart: chains of layers that hold only the connections that there are, and files of them.
"""
