"""Benchmarks: what `vllm bench serve` measured, and whether one configuration is better than another."""
