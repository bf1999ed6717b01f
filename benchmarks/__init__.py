"""Named workloads, each written once and run by Threadmark and its peer in turns.

``python -m benchmarks --list`` names them; docs/explanation/benchmarks.md says how far to trust a figure.
"""
