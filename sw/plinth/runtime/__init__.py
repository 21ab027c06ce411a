"""Executors beside the driver's dies.

numpy_executor   a step in numpy, as the host runs it
numpy_step       its operations: a kernel for each kind, for each die
memory           the places of a die as arrays
programs         vector programs
products, pools  products and convolutions; pools
tiles            what goes between dies, Winograd tiles
"""
