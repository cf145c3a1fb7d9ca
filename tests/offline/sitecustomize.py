"""No way out of this machine: Python loads this file in tests, and in every process that they start.

A connection, a datagram or a question for the address of a name beyond this machine is refused, and written down in the
file named by PACKLIB_TEST_NETWORK, so that the test fails even where a library catches the refusal.

The packages named in PACKLIB_TEST_LACKING, parted by spaces, are as if they were not installed.
"""

import ipaddress
import os
import socket
import sys
from importlib.machinery import PathFinder

LOG = "PACKLIB_TEST_NETWORK"
LACKING = "PACKLIB_TEST_LACKING"
_SENT = {"socket.connect", "socket.sendto", "socket.sendmsg"}
_ASKED = {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"}
_OURS = {"", "localhost", "<broadcast>", socket.gethostname().lower()}


def is_near(host: object, named: bool = False) -> bool:
    """Whether an address or a name is this machine's; with `named`, any address: nobody has to be asked for it."""
    name = (host.decode() if isinstance(host, bytes) else str(host or "")).lower().partition("%")[0]
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return name in _OURS or name.endswith(".localhost")
    return named or address.is_loopback or address.is_unspecified


def refuse(event: str, arguments: tuple) -> None:
    if event in _SENT:
        address = arguments[1]
        host = address[0] if isinstance(address, tuple) else None  # a path or None: a socket of this machine
    elif event in _ASKED:
        host = arguments[0]
    else:
        return
    if not is_near(host, event in _ASKED):
        said = f"{event} to {host!r} by {' '.join(sys.argv[:2])}"
        if log := os.environ.get(LOG):
            with open(log, "a", encoding="utf-8") as file:
                file.write(said + "\n")
        raise PermissionError(f"Tests may not touch the network: {said}.")


def hide(packages: list[str]) -> None:
    """Let nobody find these packages, neither who imports them nor who asks whether they are there."""
    find = PathFinder.find_spec

    def find_others(name: str, path: object = None, target: object = None) -> object:
        return None if name.partition(".")[0] in packages else find(name, path, target)

    PathFinder.find_spec = staticmethod(find_others)


sys.addaudithook(refuse)
if lacking := os.environ.get(LACKING):
    hide(lacking.split())
