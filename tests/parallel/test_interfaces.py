"""Hosts, ports and interfaces: what is chosen, and what is said when they are wrong."""

import socket

import pytest

from asr_parallel.log import UserError
from asr_parallel.parallel import network
from asr_parallel.parallel.place import Place


@pytest.fixture(autouse=True)
def no_interface_chosen(monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "")  # and what `prepare` writes there is taken back


def test_a_host_without_address_is_named():
    with pytest.raises(UserError, match=r"rank 1: the host of rank 0, 'no-such-host.invalid', has no address"):
        network.prepare(Place(1, 2, 0, 1, "no-such-host.invalid", 4321), "gloo")


def test_a_launcher_that_does_not_tell_where_rank_0_is():
    with pytest.raises(UserError, match=r"mpirun does not tell .*MASTER_ADDR.*--backend mpi"):
        network.prepare(Place(1, 4, 0, 2, "", 4321, launcher="mpirun"), "gloo")


def test_a_port_in_use_is_named_before_anybody_waits():  # P15
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=rf"rank 0: port {port} is in use .*MASTER_PORT"):
            network.prepare(Place(0, 2, 0, 2, "127.0.0.1", port), "gloo")
        network.prepare(Place(1, 2, 1, 2, "127.0.0.1", port), "gloo")  # not rank 0: somebody must be there
        network.prepare(Place(0, 2, 0, 2, "127.0.0.1", port, store_is_there=True), "gloo")
    network.prepare(Place(0, 2, 0, 2, "127.0.0.1", port), "gloo")


@pytest.mark.parametrize(
    ("variable", "value", "backend", "wrong"),
    [
        ("GLOO_SOCKET_IFNAME", "nope7", "gloo", True),
        ("GLOO_SOCKET_IFNAME", "lo", "gloo", False),
        ("GLOO_SOCKET_IFNAME", "l", "gloo", True),  # gloo knows no prefixes
        ("NCCL_SOCKET_IFNAME", "l", "nccl", False),
        ("NCCL_SOCKET_IFNAME", "=l", "nccl", True),
        ("NCCL_SOCKET_IFNAME", "^docker", "nccl", False),
        ("NCCL_SOCKET_IFNAME", "nope7", "nccl", True),
        ("NCCL_SOCKET_IFNAME", "nope7", "gloo", False),  # not read
    ],
)
def test_an_interface_that_is_not_there_is_explained(monkeypatch, variable, value, backend, wrong):
    monkeypatch.setattr(socket, "if_nameindex", lambda: [(1, "lo")])
    monkeypatch.setenv(variable, value)
    place = Place(1, 2, 1, 2, "127.0.0.1", 4321)
    if wrong:
        with pytest.raises(UserError, match=rf"{variable}={value}: no interface is called so here. There are lo \(127"):
            network.prepare(place, backend)
    else:
        network.prepare(place, backend)


def test_on_one_machine_the_loopback_is_chosen():
    assert network.prepare(Place(1, 2, 1, 2, "127.0.0.1", 4321), "gloo") == "lo"


def test_between_machines_the_interface_of_the_way_to_rank_0_is_chosen(monkeypatch):
    monkeypatch.setattr(socket, "if_nameindex", lambda: [(1, "lo"), (2, "eth0"), (3, "ib0")])
    addresses = {"lo": "127.0.0.1", "eth0": "10.0.0.5", "ib0": "10.9.0.5"}
    monkeypatch.setattr(network, "address_of", addresses.__getitem__)
    ways = {"10.9.0.1": "10.9.0.5", "127.0.1.1": "127.0.1.1", network.ELSEWHERE: "10.0.0.5"}
    monkeypatch.setattr(network, "_own_address", ways.__getitem__)
    assert network.interface("10.9.0.1", True) == "ib0"
    assert network.interface("127.0.1.1", True) == "eth0"  # Debian's entry for a host's own name
    assert network.interface("127.0.1.1", False) == "lo"
