"""Plan a network on an array: planners, which search by predictions, the Plan, and its file."""
