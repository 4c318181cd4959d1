"""Where a command listens: loopback alone, unless the operator says that other machines are meant."""

from __future__ import annotations

import errno
import sys

from tui.exits import Ending, Exit
from tui.status.server import Address, BadAddress, address


def listening_address(listen: str, allow_remote: bool, risk: str) -> Address:
    """``risk``: what whoever reaches the address can do. Raises Ending for what is no address, and for one that other
    machines reach where that was not asked for; where it was, a warning says the risk."""
    try:
        where = address(listen)
    except BadAddress as error:
        raise Ending(Exit.USAGE, str(error)) from None
    if not where.loopback:
        if not allow_remote:
            raise Ending(
                Exit.USAGE,
                f"{where} can be reached from other machines: whoever reaches it {risk}",
                "Add --allow-remote if that is meant, or listen on 127.0.0.1, behind a proxy that asks for a login.",
            )
        print(f"firstlight: warning: whoever reaches {where} {risk}", file=sys.stderr)
    return where


def reason(error: OSError) -> str:
    """What the system says about an address, in words of its own where it has good ones."""
    if error.errno == errno.EADDRINUSE:
        return "the port is taken"
    return (error.strerror or str(error)).lower()
