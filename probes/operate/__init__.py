"""Acts on a unit: start, stop, restart, roll back, go to the fallback. The steps run on the host, in a transient unit."""
