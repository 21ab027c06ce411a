"""Parallax (EuroSys 2019): which way of keeping copies equal wins on its cluster, and by what factor, computed anew.

``models``    sizes of its four models, and how many rows of their tables a worker, or a machine, touches
``messages``  messages of a step one by one, counted as Table 3 counts them
``cluster``   a step on 8 machines of 6 workers, simulated message by message
``figures``   the tables
``pictures``  throughput by way, and over alpha
"""
