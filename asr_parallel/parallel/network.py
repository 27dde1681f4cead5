"""Hosts, ports and network interfaces: chosen right by default, checked before anybody waits, explained when wrong.

gloo and NCCL bind to the interface that GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME names.  Without the first, gloo takes
the address that this host's name has, which often is 127.0.1.1 and leads nowhere from other machines.
"""

from __future__ import annotations

import errno
import fcntl
import ipaddress
import os
import socket
import struct

from asr_parallel.log import UserError
from asr_parallel.parallel.place import Place

ELSEWHERE = "192.0.2.1"  # no one's address (RFC 5737): asks for the interface of the default route
SIOCGIFADDR = 0x8915  # Linux: the IPv4 address of an interface


def prepare(place: Place, backend: str) -> str:
    """Check the way to the others; name the interface if nobody has.  Give it, or "" for torch's own choice.

    Raises ``UserError`` for a host without address, a port that is taken, or an interface that is not there.
    """
    address = resolve(place)
    if place.rank == 0 and not place.store_is_there:
        check_port(place)
    if backend == "nccl":
        check_interfaces("NCCL_SOCKET_IFNAME")
    check_interfaces("GLOO_SOCKET_IFNAME")  # small things go through gloo with nccl too
    if not os.environ.get("GLOO_SOCKET_IFNAME"):
        found = interface(address, place.size > place.local_size)
        if found:
            os.environ["GLOO_SOCKET_IFNAME"] = found
    return os.environ.get("GLOO_SOCKET_IFNAME", "")


def resolve(place: Place) -> str:
    """The address of the first worker's host."""
    if not place.host:
        raise UserError(
            f"{place.launcher} does not tell where rank 0 is: set MASTER_ADDR to its host name for all workers "
            "(mpirun -x MASTER_ADDR=HOST, mpiexec -genv MASTER_ADDR HOST), or give --backend mpi"
        )
    try:
        return str(socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise UserError(
            f"rank {place.rank}: the host of rank 0, {place.host!r}, has no address here ({error.strerror}): "
            "set MASTER_ADDR to a name or address that all machines know"
        ) from None


def check_port(place: Place) -> None:
    """Raise ``UserError`` if the port that rank 0 is to serve is taken."""
    family = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)[0][0]
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as torch does: not those of a moment ago
        try:
            probe.bind(("", place.port))
        except OSError as error:
            why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be opened ({error.strerror})"
            raise UserError(
                f"rank 0: port {place.port} {why} on {place.host}, perhaps by another training: "
                "set MASTER_PORT to a free one for all workers"
            ) from None


def interface(address: str, several_machines: bool) -> str:
    """The interface that joins this machine with ``address``, the first worker's; "" if it cannot be told."""
    own = _own_address(address)
    if several_machines and own and ipaddress.ip_address(own).is_loopback:
        own = _own_address(ELSEWHERE)  # rank 0 itself, whose name is that of the loopback
    if own.startswith("127."):
        own = "127.0.0.1"
    names = [name for _, name in socket.if_nameindex()]
    return next((name for name in names if own and address_of(name) == own), "")


def check_interfaces(variable: str) -> None:
    """Raise ``UserError`` if the variable of gloo or NCCL names an interface that is not there or has no address.

    gloo takes names, NCCL prefixes of names, ``=`` before exact ones and ``^`` before those to leave out.
    """
    value = os.environ.get(variable, "")
    if not value or value.startswith("^"):
        return
    there = {name: address_of(name) for _, name in socket.if_nameindex()}
    exact = variable.startswith("GLOO") or value.startswith("=")
    for wanted in value.removeprefix("=").split(","):
        found = [name for name in there if (name == wanted if exact else name.startswith(wanted))]
        known = ", ".join(f"{name} ({address or 'no IPv4 address'})" for name, address in there.items())
        if not found:
            raise UserError(f"{variable}={value}: no interface is called so here. There are {known}; or unset it")
        if not any(there[name] for name in found) and not os.path.exists("/proc/net/if_inet6"):
            raise UserError(f"{variable}={value}: {found[0]} has no address, so it is down. There are {known}")


def address_of(name: str) -> str:
    """The IPv4 address of an interface, "" if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            found = fcntl.ioctl(probe, SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
        except OSError:
            return ""
    return socket.inet_ntoa(found[20:24])


def _own_address(address: str) -> str:
    """The address from which this machine would send to ``address``; "" if there is no way.  Sends nothing."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, 9))
        except OSError:
            return ""
        return str(probe.getsockname()[0])
