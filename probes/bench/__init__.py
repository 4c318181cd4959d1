"""Measures a server with its own `vllm bench serve`, on its own host, in a transient unit that outlives the link."""
