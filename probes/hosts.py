"""From what the operator wrote to a host."""

from __future__ import annotations

from probes.host import Host
from probes.libraries import known_libraries
from probes.local import LocalHost

LOCAL = "local"


def open_host(target: str) -> Host:
    """``local``: this machine. Else SSH: ``host``, ``user@host``, ``host:port``, an alias of ssh_config.

    Connects nothing yet: that is ``links()``. Raises HostError for what can be no host name.
    """
    if target == LOCAL:
        return LocalHost()
    with known_libraries():
        from probes.ssh import SshHost
    return SshHost(target)
