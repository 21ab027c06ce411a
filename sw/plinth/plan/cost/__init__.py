"""What a plan costs: words that are moved, and the time of a training step."""
