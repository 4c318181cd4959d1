"""Acts on a unit: start, stop, restart, roll back, fallback. The steps run on the host, in a transient unit."""
