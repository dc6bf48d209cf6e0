"""The choice of ports."""

from __future__ import annotations

import socket

import pytest

from millpond.devstack import ports
from millpond.devstack.ports import LOOPBACK, free_port


def test_a_free_port_can_be_bound() -> None:
    with socket.socket() as listener:
        listener.bind((LOOPBACK, free_port()))


def test_the_twin_of_a_port_is_free_as_well() -> None:
    with socket.socket() as listener:
        listener.bind((LOOPBACK, free_port(twin_offset=10_000) + 10_000))


def test_a_port_and_its_twin_stay_out_of_the_range_of_outgoing_connections() -> None:
    highest = max(free_port(twin_offset=10_000) + 10_000 for _ in range(200))

    assert highest < 32_768


@pytest.mark.parametrize("offset", [0, 10_000])
def test_a_port_somebody_listens_on_is_not_chosen(monkeypatch: pytest.MonkeyPatch, offset: int) -> None:
    wanted = free_port(twin_offset=10_000)
    # The choice is narrowed to the wanted port, and a listener sits on it or on its twin.
    monkeypatch.setattr(ports, "_FIRST", wanted)
    monkeypatch.setattr(ports, "_END", wanted + 10_001)
    with socket.socket() as occupier:
        occupier.bind((LOOPBACK, wanted + offset))
        occupier.listen()

        with pytest.raises(OSError, match="no free port"):
            free_port(twin_offset=10_000)


def test_a_port_chosen_before_is_not_chosen_again(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = free_port()
    monkeypatch.setattr(ports, "_FIRST", wanted)
    monkeypatch.setattr(ports, "_END", wanted + 1)

    with pytest.raises(OSError, match="no free port"):
        free_port(taken=frozenset({wanted}))
