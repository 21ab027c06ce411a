"""Workers: processes that each run a training loop, written for one device, on a share of the samples.

The loop's own model computes gradients; this room keeps the copies of its variables equal, after Parallax: dense
gradients go round a ring of all workers, rows of sparse ones to the servers that own them, or to all.

::

    machines    which workers share a machine, and who of them serves
    channel     rows from servers to clients, and their gradients back
    tables      a table over channels, or gathered by all
    sums        dense gradients, fused into one message of a ring
    runner      all of these in the order of a step
    network_trainer     a network of this project
    torch_module        a module of PyTorch: its tables and dense parameters
    indexed             matrices whose rows a step reads by number, though they are no embeddings
    torch_runner        and its steps, together with others
    clocks, asynchronous, torch_asynchronous    steps at each worker's own pace, within a bound
"""
