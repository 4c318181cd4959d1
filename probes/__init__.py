"""Asks the host: everything that talks to a server, one file a source. Yields readings, keeps no history."""
