"""Speed and memory of udtw against other libraries: ``python -m benchmarks``."""
