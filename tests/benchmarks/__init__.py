"""Benchmarks: `make bench` runs them all, `python -m tests.benchmarks packing` one of them."""
