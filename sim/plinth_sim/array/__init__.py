"""Event-driven simulation of an array of dies: engines in order, memories and links that are shared."""
