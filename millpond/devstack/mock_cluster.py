"""librdkafka's mock cluster as a broker of the stack: a process of its own, told what to do over a pipe."""

from __future__ import annotations

import json
import os
import selectors
import sys
import threading
from itertools import count
from typing import TYPE_CHECKING, Any

from millpond.deadline import Deadline
from millpond.devstack.broker import Broker
from millpond.devstack.errors import BrokerRefusedError, NotReadyError
from millpond.devstack.mock_library import ApiKey, BrokerRequest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_CHUNK_BYTES = 65_536


class MockCluster(Broker):
    """A broker that needs nothing but confluent-kafka, and that fails on demand.

    Real in what a consumer with assigned partitions sees: offsets, watermarks, commits with metadata,
    topic ids, deleted records. Missing: CreateTopics, configuration, offsets by time, read_committed. It
    keeps about 5 MB a partition and drops the oldest beyond that, so producers must pace themselves.
    An unknown topic that is produced to appears with 4 partitions. A process that ended takes records and
    port with it: for an outage use go_down() and come_up().
    """

    piped = True
    keeps_data = False
    # A command takes milliseconds; one that takes this long will not be answered.
    answer_seconds = 10.0

    def __init__(self, *, folder: Path, logs: Path) -> None:
        super().__init__("mock-broker", folder=folder, logs=logs)
        self._bootstrap_servers: str | None = None
        self._numbers = count(1)
        self._unread = b""
        self._turn = threading.Lock()

    @property
    def bootstrap_servers(self) -> str:
        """`127.0.0.1:port`."""
        if self._bootstrap_servers is None:
            raise self.failure("has no address before its first start: call start()")
        return self._bootstrap_servers

    def choose_ports(self) -> None:
        """The library takes an ephemeral port by itself."""

    def command(self) -> Sequence[str]:
        """Our own module, in this interpreter."""
        return [sys.executable, "-m", "millpond.devstack.mock_broker"]

    def probe(self, deadline: Deadline) -> None:
        """Ready when it tells its address, which it does once its listener is open."""
        try:
            self._bootstrap_servers = self._ask("bootstrap_servers", seconds=deadline.remaining())
        except BrokerRefusedError as error:
            raise NotReadyError(str(error)) from error

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic; an existing one is refused."""
        self._ask("create_topic", topic=topic, partitions=partitions)

    def delete_topic(self, topic: str) -> None:
        """Remove a topic and its records; created again it has another topic id."""
        self._ask("delete_topic", topic=topic)

    def set_topic_error(self, topic: str, error: int) -> None:
        """Answer metadata requests for `topic` with a KafkaError code; 0 ends it."""
        self._ask("set_topic_error", topic=topic, error=error)

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None:
        """Move the start of a partition's log to `before_offset`, as retention does."""
        self._ask("delete_records", topic=topic, partition=partition, before_offset=before_offset)

    def inject_errors(self, api_key: ApiKey, errors: Sequence[int]) -> None:
        """Answer the next requests of this kind with these KafkaError codes, one each, in order."""
        self._ask("inject_errors", api_key=int(api_key), errors=[int(error) for error in errors])

    def clear_errors(self, api_key: ApiKey) -> None:
        """Forget injected errors that no request has met yet."""
        self._ask("clear_errors", api_key=int(api_key))

    def go_down(self) -> None:
        """Close all connections and refuse new ones; records and committed offsets stay."""
        self._ask("go_down")

    def come_up(self) -> None:
        """Accept connections again, on the same port."""
        self._ask("come_up")

    def set_round_trip(self, milliseconds: int) -> None:
        """Delay every answer by this long."""
        self._ask("set_round_trip", milliseconds=milliseconds)

    def track_requests(self) -> None:
        """Keep a list of all requests from here on, starting empty."""
        self._ask("track_requests")

    def requests(self) -> list[BrokerRequest]:
        """The requests since `track_requests`, oldest first."""
        return [BrokerRequest(**request) for request in self._ask("requests")]

    def _ask(self, name: str, *, seconds: float | None = None, **arguments: Any) -> Any:
        with self._turn:
            number = next(self._numbers)
            self._send({"id": number, "do": name} | arguments)
            deadline = Deadline(self.answer_seconds if seconds is None else seconds)
            answer = self._receive(name, deadline)
            # An answer that came after its deadline was left in the pipe: it is not ours.
            while answer["id"] != number:
                answer = self._receive(name, deadline)
        if "error" in answer:
            raise BrokerRefusedError(answer["error"], code=answer["code"])
        return answer["result"]

    def _send(self, command: dict[str, Any]) -> None:
        stdin = self._started().stdin
        try:
            # A command is far below the pipe's buffer, so one write takes all of it.
            os.write(stdin.fileno(), (json.dumps(command) + "\n").encode())  # type: ignore[union-attr]  # piped
        except (OSError, ValueError) as error:
            raise self._gone(command["do"]) from error

    def _receive(self, name: str, deadline: Deadline) -> dict[str, Any]:
        while b"\n" not in self._unread:
            self._unread += self._read_chunk(name, deadline)
        line, _, self._unread = self._unread.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _read_chunk(self, name: str, deadline: Deadline) -> bytes:
        stdout = self._started().stdout
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)  # type: ignore[arg-type]  # piped: never None
            if not selector.select(deadline.remaining()):
                raise BrokerRefusedError(f"the mock broker did not answer {name!r} in time; is it paused?")
        chunk = os.read(stdout.fileno(), _CHUNK_BYTES)  # type: ignore[union-attr]  # piped: never None
        if not chunk:
            raise self._gone(name)
        return chunk

    def _gone(self, name: str) -> BrokerRefusedError:
        return BrokerRefusedError(f"the mock broker ended before it answered {name!r} (log: {self.log_path})")
