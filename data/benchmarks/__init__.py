"""Benchmarks: `make bench` runs the short ones, `python data/record.py packing` one of them."""
