"""Scaling up: buckets of shapes and compiling, what a pod costs, pipelines, rings, sharded states."""
