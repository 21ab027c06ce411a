"""Deep3 (DAC 2017): what its tables say of local networks, computed anew as far as its text allows.

``cases``     its applications and platforms, and which local networks a printed reduction leaves
``equations`` equations 1 to 3, Table 2 and Adagrad as printed, by the functions that compute them here
``times``     time of a batch: by Table 2, and measured here
``runs``      local networks and synchronous training to the same accuracy, on data of ours
``figures``   the tables
``pictures``  speed-up by kernels
"""
