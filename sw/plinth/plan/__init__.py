"""From a network and an array to a Plan: graphs, costs, planners."""
