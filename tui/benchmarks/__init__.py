"""Benchmarks on the screen: begun, armed, followed, compared."""
