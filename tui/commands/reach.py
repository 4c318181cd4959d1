"""The way to a host, and the probes of a deployment on it: what a watch needs first. Nothing else is imported here, so
that the host is asked while the rest of the program is still being loaded."""

from __future__ import annotations

import asyncio

from probes.endpoint import BadEndpoint
from probes.host import Host, HostError
from probes.hosts import open_host
from probes.supervise import Supervisor
from tui.exits import Ending, Exit
from watch.config import Config, Deployment


def open_target(target: str) -> Host:
    """Raises Ending for what can be no host."""
    try:
        return open_host(target)
    except HostError as error:
        raise Ending(Exit.UNREACHABLE, error.reason, error.remedy) from None


def supervised(
    host: Host,
    deployment: Deployment,
    config: Config,
    *,
    since: str | None = None,
    gpu_interval: float = 0.0,
    drawn: asyncio.Event | None = None,
) -> Supervisor:
    """Its probes, not begun. ``gpu_interval``, ``drawn``: as ``live``. Raises Ending for an endpoint that is none."""
    try:
        return Supervisor(
            host,
            deployment.unit,
            endpoint=deployment.endpoint or None,
            user=deployment.user,
            since=since,
            gpu_interval=max(gpu_interval, config.defaults.gpu_interval),
            tls_ca=deployment.tls_ca,
            tls_verify=deployment.tls_verify,
            drawn=drawn,
        )
    except BadEndpoint as error:
        raise Ending(Exit.USAGE, str(error), "firstlight watch --help has an example.") from None
