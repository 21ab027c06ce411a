"""Benchmarks: cycle counts from hardware counters, and the speed of the co-simulation."""
