"""Side-by-side measurements; `python -m benchmarks --help`. Nothing here is installed with the package."""
