"""From a network and an array to a Plan: planners, which search by predictions, the Plan, and its file."""
