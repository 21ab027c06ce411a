"""Planners: each turns a graph and costs into splits."""
