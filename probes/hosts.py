"""From what the operator wrote to a host."""

from __future__ import annotations

from probes.host import Host
from probes.local import LocalHost
from probes.ssh import SshHost

LOCAL = "local"


def open_host(target: str) -> Host:
    """``local``: this machine. Else SSH: ``host``, ``user@host``, ``host:port``, an alias of ssh_config.

    Connects nothing yet: that is ``links()``. Raises HostError for what can be no host name.
    """
    return LocalHost() if target == LOCAL else SshHost(target)
