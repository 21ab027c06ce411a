"""The training job: data, the step loop over an array, checkpoints."""
