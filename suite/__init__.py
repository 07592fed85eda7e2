"""The judge: pytest plugin, conformance tests, benchmarks."""
