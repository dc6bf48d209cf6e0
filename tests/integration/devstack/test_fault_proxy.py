"""What the fault proxy does to real connections, and to clients of the stack's servers."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import boto3
import httpx
import pytest
from botocore.config import Config

from millpond.devstack.catalog_process import CatalogProcess
from millpond.devstack.fault_proxy import FaultProxy
from millpond.devstack.moto_store import MotoStore
from millpond.devstack.ports import LOOPBACK, free_port
from tests.integration.devstack.conftest import Eventually, Folders

SECONDS = 5.0
SILENCE_SECONDS = 0.3
HELLO = b"hello"


class EchoServer:
    """Sends back what it gets, and keeps it."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.ends: list[str] = []
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        # A close alone does not wake a thread that accepts.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(SECONDS)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._echo, args=(client,)))
            self._threads[-1].start()

    def _echo(self, client: socket.socket) -> None:
        with client:
            try:
                while chunk := client.recv(65_536):
                    self.received += chunk
                    client.sendall(chunk)
                self.ends.append("end")
            except ConnectionError:
                self.ends.append("reset")


@pytest.fixture
def echo() -> Iterator[EchoServer]:
    server = EchoServer()
    yield server
    server.close()


@pytest.fixture
def proxy(echo: EchoServer) -> Iterator[FaultProxy]:
    with FaultProxy(echo.port) as running:
        yield running


@pytest.fixture
def client(proxy: FaultProxy) -> Iterator[socket.socket]:
    """A connection through the proxy that has worked once."""
    with connect(proxy) as connected:
        assert HELLO == ask(connected, HELLO)
        yield connected


def connect(proxy: FaultProxy) -> socket.socket:
    return socket.create_connection((LOOPBACK, proxy.port), timeout=SECONDS)


def ask(client: socket.socket, request: bytes) -> bytes:
    """Send, and read as much back."""
    client.sendall(request)
    return read(client, len(request))


def read(client: socket.socket, size: int) -> bytes:
    """Exactly so many bytes, or fewer when the connection ends."""
    found = bytearray()
    while len(found) < size and (chunk := client.recv(size - len(found))):
        found += chunk
    return bytes(found)


def is_silent(client: socket.socket) -> bool:
    """Whether nothing comes, not even an end, for a while."""
    client.settimeout(SILENCE_SECONDS)
    try:
        return client.recv(1) is None
    except TimeoutError:
        return True
    finally:
        client.settimeout(SECONDS)


def test_bytes_go_through_unchanged(client: socket.socket) -> None:
    request = bytes(range(256)) * 4096
    sender = threading.Thread(target=client.sendall, args=(request,))
    sender.start()
    assert request == read(client, len(request))
    sender.join(SECONDS)


def test_an_end_goes_through_and_leaves_nothing_open(
    proxy: FaultProxy, client: socket.socket, echo: EchoServer, eventually: Eventually
) -> None:
    client.shutdown(socket.SHUT_WR)
    assert b"" == client.recv(1)
    eventually(lambda: echo.ends == ["end"] and proxy.connections == 0, "the connection stayed open")


def test_a_reset_by_the_server_reaches_the_client(eventually: Eventually) -> None:
    with (
        socket.create_server((LOOPBACK, 0)) as server,
        FaultProxy(server.getsockname()[1]) as proxy,
        connect(proxy) as client,
    ):
        client.sendall(HELLO)
        accepted, _ = server.accept()
        with accepted:  # closed with unread bytes, which is a reset
            eventually(lambda: accepted.recv(1, socket.MSG_PEEK) == b"h", "nothing came")
        with pytest.raises(ConnectionResetError):
            client.recv(1)


def test_a_delay_is_added_both_ways(proxy: FaultProxy, client: socket.socket) -> None:
    proxy.delay(0.2)
    started = time.monotonic()
    assert HELLO == ask(client, HELLO)
    assert 0.4 <= time.monotonic() - started < 3


def test_a_delay_is_no_throttle(proxy: FaultProxy, client: socket.socket) -> None:
    """The proxy reads 64 KiB at once; one after the other, these would take 6 s."""
    size = 2 * 2**20
    proxy.delay(0.2)
    started = time.monotonic()
    sender = threading.Thread(target=client.sendall, args=(b"x" * size,))
    sender.start()
    assert size == len(read(client, size))
    sender.join(SECONDS)
    assert time.monotonic() - started < 5


def test_a_throttle_bounds_the_bandwidth(proxy: FaultProxy, client: socket.socket) -> None:
    proxy.throttle(40_000)
    started = time.monotonic()
    assert 20_000 == len(ask(client, b"x" * 20_000))
    # Half a second there, and the last slice another twentieth back.
    assert 0.45 <= time.monotonic() - started < 4


def test_a_black_hole_holds_bytes_and_ends_back_until_it_is_gone(
    proxy: FaultProxy, client: socket.socket, echo: EchoServer
) -> None:
    proxy.blackhole()
    client.sendall(b"later")
    client.shutdown(socket.SHUT_WR)
    assert is_silent(client)
    assert (HELLO, []) == (bytes(echo.received), echo.ends)
    proxy.pass_through()
    assert b"later" == read(client, 100)


def test_a_server_in_a_black_hole_does_not_learn_that_its_client_has_gone(
    proxy: FaultProxy, client: socket.socket, echo: EchoServer, eventually: Eventually
) -> None:
    proxy.blackhole()
    client.close()
    with connect(proxy) as other:
        assert is_silent(other)
    assert [] == echo.ends
    proxy.pass_through()
    eventually(lambda: "end" in echo.ends, "the server never learned it")


def test_a_new_connection_meets_the_fault_too(proxy: FaultProxy, echo: EchoServer) -> None:
    proxy.blackhole()
    with connect(proxy) as late:
        late.sendall(HELLO)
        assert is_silent(late)
        assert b"" == bytes(echo.received)
        proxy.pass_through()
        assert HELLO == read(late, len(HELLO))


def test_replies_alone_are_dropped(
    proxy: FaultProxy, client: socket.socket, echo: EchoServer, eventually: Eventually
) -> None:
    proxy.drop_replies()
    client.sendall(b"lost")
    eventually(lambda: bytes(echo.received) == HELLO + b"lost", "the request did not arrive")
    assert is_silent(client)


def test_a_connection_that_lost_bytes_does_not_go_on(
    proxy: FaultProxy, client: socket.socket, echo: EchoServer, eventually: Eventually
) -> None:
    with connect(proxy) as whole:
        assert HELLO == ask(whole, HELLO)
        proxy.drop_replies()
        client.sendall(b"lost")
        eventually(lambda: bytes(echo.received).endswith(b"lost"), "the request did not arrive")
        assert is_silent(client)
        proxy.pass_through()
        with pytest.raises(ConnectionResetError):
            client.recv(1)
        assert HELLO == ask(whole, HELLO)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_reset_after_so_many_bytes_of_requests(
    proxy: FaultProxy, client: socket.socket, echo: EchoServer, count: int, eventually: Eventually
) -> None:
    proxy.reset_after(count)
    client.sendall(b"abcdef")
    with pytest.raises(ConnectionResetError):
        read(client, 6)
    eventually(lambda: echo.ends == ["reset"], "the server saw no reset")
    assert HELLO + b"abcdef"[:count] == bytes(echo.received)


def test_a_reset_after_so_many_bytes_of_replies(
    proxy: FaultProxy, client: socket.socket, echo: EchoServer
) -> None:
    proxy.reset_after(4, replies=True)
    client.sendall(b"abcdef")
    assert b"abcd" == read(client, 4)
    with pytest.raises(ConnectionResetError):
        client.recv(1)
    assert HELLO + b"abcdef" == bytes(echo.received)


def test_bytes_before_the_order_do_not_count(proxy: FaultProxy, client: socket.socket) -> None:
    proxy.reset_after(5)
    assert b"abc" == ask(client, b"abc")
    proxy.reset_after(4)
    assert b"abc" == ask(client, b"abc")


def test_refusing_resets_what_is_open_and_keeps_the_port(proxy: FaultProxy, client: socket.socket) -> None:
    proxy.refuse()
    with pytest.raises(ConnectionResetError):
        client.recv(1)
    with pytest.raises(ConnectionRefusedError):
        connect(proxy)
    with pytest.raises(OSError, match="in use"), socket.socket() as other:
        other.bind((LOOPBACK, proxy.port))
    proxy.pass_through()
    with connect(proxy) as again:
        assert HELLO == ask(again, HELLO)


def test_a_server_that_is_not_there_is_a_reset() -> None:
    # The reset may come before the client knows that it is connected.
    with FaultProxy(free_port()) as proxy, pytest.raises(ConnectionResetError), connect(proxy) as client:
        client.recv(1)


def test_a_closed_proxy_refuses_and_takes_no_orders(echo: EchoServer) -> None:
    with FaultProxy(echo.port) as proxy:
        client = connect(proxy)
        assert HELLO == ask(client, HELLO)
    with client, pytest.raises(ConnectionResetError):
        client.recv(1)
    with pytest.raises(ConnectionRefusedError):
        connect(proxy)
    with pytest.raises(RuntimeError, match="does not run"):
        proxy.pass_through()


@pytest.fixture
def catalog(folders: Folders) -> Iterator[CatalogProcess]:
    process = CatalogProcess(folder=folders.data, logs=folders.logs)
    process.start()
    yield process
    process.stop()


def test_a_catalog_behind_it_does_the_work_of_a_lost_reply(
    catalog: CatalogProcess, eventually: Eventually
) -> None:
    port = int(catalog.url.rpartition(":")[2])
    body = {"name": "lake", "data_path": "s3://lake/lake"}
    with FaultProxy(port) as proxy, httpx.Client(base_url=proxy.url, trust_env=False) as client:
        proxy.drop_replies()
        with pytest.raises(httpx.ReadTimeout):
            client.post("/v1/catalogs", json=body, timeout=1)
        proxy.pass_through()
        assert 409 == client.post("/v1/catalogs", json=body, timeout=SECONDS).status_code


def test_a_store_behind_it_takes_signed_requests(folders: Folders) -> None:
    """The signature covers the host a client was given, which is the proxy; the store sees that one too."""
    store = MotoStore(bucket="lake", folder=folders.data, logs=folders.logs)
    store.start()
    try:
        with FaultProxy(int(store.endpoint.rpartition(":")[2])) as proxy:
            s3 = boto3.client(
                "s3",
                endpoint_url=proxy.url,
                region_name=store.region,
                aws_access_key_id=store.access_key,
                aws_secret_access_key=store.secret_key,
                config=Config(retries={"total_max_attempts": 1}, proxies={}),
            )
            with closing(s3):
                s3.put_object(Bucket="lake", Key="k", Body=b"x" * 100_000)
                assert 100_000 == len(s3.get_object(Bucket="lake", Key="k")["Body"].read())
    finally:
        store.kill()
