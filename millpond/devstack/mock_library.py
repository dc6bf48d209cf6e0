"""librdkafka's mock cluster, called by ctypes in the very library that confluent-kafka brings along."""

from __future__ import annotations

import ctypes
import importlib.util
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING

from millpond.devstack.errors import BrokerRefusedError, MissingToolError

if TYPE_CHECKING:
    from collections.abc import Sequence

BROKER_ID = 1
_PRODUCER = 0
_ERROR_TEXT_BYTES = 512

_pointer, _text, _int = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
_int16, _int32, _int64, _size = ctypes.c_int16, ctypes.c_int32, ctypes.c_int64, ctypes.c_size_t
# Result and argument types, as declared in rdkafka.h and rdkafka_mock.h.
_SIGNATURES: dict[str, tuple[object, list[object]]] = {
    "rd_kafka_conf_new": (_pointer, []),
    "rd_kafka_conf_set": (_int, [_pointer, _text, _text, _text, _size]),
    "rd_kafka_new": (_pointer, [_int, _pointer, _text, _size]),
    "rd_kafka_destroy": (None, [_pointer]),
    "rd_kafka_err2name": (_text, [_int]),
    "rd_kafka_mem_free": (None, [_pointer, _pointer]),
    "rd_kafka_mock_cluster_new": (_pointer, [_pointer, _int]),
    "rd_kafka_mock_cluster_destroy": (None, [_pointer]),
    "rd_kafka_mock_cluster_bootstraps": (_text, [_pointer]),
    "rd_kafka_mock_set_controller_id": (None, [_pointer, _int32]),
    "rd_kafka_mock_topic_create": (_int, [_pointer, _text, _int, _int]),
    "rd_kafka_mock_topic_delete": (_int, [_pointer, _text]),
    "rd_kafka_mock_topic_set_error": (None, [_pointer, _text, _int]),
    "rd_kafka_mock_partition_delete_records": (_int, [_pointer, _text, _int32, _int64]),
    "rd_kafka_mock_push_request_errors_array": (
        None,
        [_pointer, _int16, _size, ctypes.POINTER(_int)],
    ),
    "rd_kafka_mock_clear_request_errors": (None, [_pointer, _int16]),
    "rd_kafka_mock_broker_set_down": (_int, [_pointer, _int32]),
    "rd_kafka_mock_broker_set_up": (_int, [_pointer, _int32]),
    "rd_kafka_mock_broker_set_rtt": (_int, [_pointer, _int32, _int]),
    "rd_kafka_mock_start_request_tracking": (None, [_pointer]),
    "rd_kafka_mock_get_requests": (ctypes.POINTER(_pointer), [_pointer, ctypes.POINTER(_size)]),
    "rd_kafka_mock_request_api_key": (_int16, [_pointer]),
    "rd_kafka_mock_request_timestamp": (_int64, [_pointer]),
    "rd_kafka_mock_request_destroy": (None, [_pointer]),
}


class ApiKey(IntEnum):
    """Kafka protocol requests, by their number on the wire."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10


@dataclass(frozen=True)
class BrokerRequest:
    """One request the broker received: its ApiKey number and when, in microseconds of a monotonic clock."""

    api_key: int
    timestamp_us: int


class MockLibrary:
    """A running mock cluster of one broker; its listeners serve any process on this machine.

    Every method is a blocking call into librdkafka's mock thread and answers within milliseconds.

    Raises:
        MissingToolError: confluent-kafka here does not carry a librdkafka with the functions used.
        BrokerRefusedError: the cluster answered with an error; its librdkafka name is in the message.
    """

    def __init__(self) -> None:
        self._library = _load()
        self._client = self._new_client()
        self._cluster = self._library.rd_kafka_mock_cluster_new(self._client, 1)
        if not self._cluster:
            raise BrokerRefusedError("librdkafka could not open the mock cluster's loopback listener")
        # Admin requests (describe_topics, which tells the topic id) go to the controller; none is set.
        self._library.rd_kafka_mock_set_controller_id(self._cluster, BROKER_ID)

    def close(self) -> None:
        """End the cluster; its port closes."""
        self._library.rd_kafka_mock_cluster_destroy(self._cluster)
        self._library.rd_kafka_destroy(self._client)

    def bootstrap_servers(self) -> str:
        """`host:port`, what clients call bootstrap.servers."""
        bootstraps: bytes = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster)
        return bootstraps.decode()

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic; an existing one is refused."""
        self._check(
            self._library.rd_kafka_mock_topic_create(self._cluster, topic.encode(), partitions, 1),
            f"create topic {topic} with {partitions} partitions",
        )

    def delete_topic(self, topic: str) -> None:
        """Remove a topic and its records; created again it has another topic id."""
        code = self._library.rd_kafka_mock_topic_delete(self._cluster, topic.encode())
        self._check(code, f"delete topic {topic}")

    def set_topic_error(self, topic: str, error: int) -> None:
        """Answer metadata requests for `topic` with this error code; 0 ends it."""
        self._library.rd_kafka_mock_topic_set_error(self._cluster, topic.encode(), error)

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None:
        """Move the start of a partition's log to `before_offset`, as retention does."""
        code = self._library.rd_kafka_mock_partition_delete_records(
            self._cluster, topic.encode(), partition, before_offset
        )
        self._check(code, f"delete the records of {topic}[{partition}] before offset {before_offset}")

    def inject_errors(self, api_key: int, errors: Sequence[int]) -> None:
        """Answer the next requests of this kind with these error codes, one each, in order."""
        array = (_int * len(errors))(*errors)
        self._library.rd_kafka_mock_push_request_errors_array(self._cluster, api_key, len(errors), array)

    def clear_errors(self, api_key: int) -> None:
        """Forget injected errors that were not answered yet."""
        self._library.rd_kafka_mock_clear_request_errors(self._cluster, api_key)

    def go_down(self) -> None:
        """Close all connections and refuse new ones; records and offsets stay."""
        code = self._library.rd_kafka_mock_broker_set_down(self._cluster, BROKER_ID)
        self._check(code, "go down")

    def come_up(self) -> None:
        """Accept connections again, on the same port."""
        code = self._library.rd_kafka_mock_broker_set_up(self._cluster, BROKER_ID)
        self._check(code, "come up")

    def set_round_trip(self, milliseconds: int) -> None:
        """Delay every answer by this long."""
        code = self._library.rd_kafka_mock_broker_set_rtt(self._cluster, BROKER_ID, milliseconds)
        self._check(code, f"delay answers by {milliseconds} ms")

    def track_requests(self) -> None:
        """Keep a list of all requests from here on, starting empty."""
        self._library.rd_kafka_mock_start_request_tracking(self._cluster)

    def requests(self) -> list[BrokerRequest]:
        """The requests since `track_requests`, oldest first."""
        library, count = self._library, _size()
        array = library.rd_kafka_mock_get_requests(self._cluster, ctypes.byref(count))
        seen = []
        for request in array[: count.value]:
            api_key = library.rd_kafka_mock_request_api_key(request)
            seen.append(BrokerRequest(api_key, library.rd_kafka_mock_request_timestamp(request)))
            library.rd_kafka_mock_request_destroy(request)
        library.rd_kafka_mem_free(None, array)
        return seen

    def _new_client(self) -> int:
        configuration = self._library.rd_kafka_conf_new()
        text = ctypes.create_string_buffer(_ERROR_TEXT_BYTES)
        # The handle is never used as a client: its warning about missing brokers would only mislead.
        self._library.rd_kafka_conf_set(configuration, b"log_level", b"3", text, _ERROR_TEXT_BYTES)
        client: int | None = self._library.rd_kafka_new(_PRODUCER, configuration, text, _ERROR_TEXT_BYTES)
        if not client:
            raise BrokerRefusedError(f"librdkafka gave no handle: {text.value.decode(errors='replace')}")
        return client

    def _check(self, code: int, action: str) -> None:
        if code:
            name: bytes = self._library.rd_kafka_err2name(code)
            raise BrokerRefusedError(f"the mock broker could not {action}: {name.decode()}", code=code)


def _load() -> ctypes.CDLL:
    path = _library_path()
    library = ctypes.CDLL(str(path))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name, None)
        if function is None:
            raise MissingToolError(
                f"{path.name} has no {name}: install the confluent-kafka version of requirements.lock"
            )
        function.restype, function.argtypes = result, arguments
    return library


def _library_path() -> Path:
    spec = importlib.util.find_spec("confluent_kafka")
    if spec is None or spec.origin is None:
        raise MissingToolError("confluent-kafka is not installed: pip install 'millpond[devstack]'")
    package = Path(spec.origin).parent
    # Where wheel repair puts bundled libraries: beside the package on Linux, inside it on macOS.
    folders = (package.parent / "confluent_kafka.libs", package / ".dylibs")
    found = [path for folder in folders for path in sorted(folder.glob("librdkafka[-.]*"))]
    if not found:
        raise MissingToolError(
            "confluent-kafka here uses a librdkafka of the system; the mock broker needs the one in its "
            "wheel: pip install --force-reinstall --only-binary :all: confluent-kafka"
        )
    return found[0]
