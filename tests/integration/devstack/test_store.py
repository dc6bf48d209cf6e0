"""Both object stores, seen by an S3 client."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from botocore.exceptions import ClientError

from millpond.deadline import Deadline
from millpond.devstack.errors import MissingToolError, NotReadyError, PartFailedError
from millpond.devstack.moto_store import MotoStore
from millpond.devstack.ports import LOOPBACK
from millpond.devstack.seaweed import SeaweedStore
from millpond.devstack.store import Credentials, ObjectStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.devstack.conftest import Folders

BUCKET = "lake"
KEY = "flights/carrier=UA/day=2013-01-01/a b%20ü.parquet"


@pytest.fixture(scope="module", params=[SeaweedStore, MotoStore], ids=["seaweed", "moto"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    folder = tmp_path_factory.mktemp("store")
    server: ObjectStore = request.param(bucket=BUCKET, folder=folder / "data", logs=folder / "logs")
    server.start()
    yield server
    server.kill()


@pytest.fixture
def s3(store: ObjectStore) -> Iterator[Any]:
    with closing(store.client()) as client:
        yield client


@pytest.fixture(scope="module")
def own_seaweed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeaweedStore]:
    folder = tmp_path_factory.mktemp("seaweed")
    server = SeaweedStore(bucket=BUCKET, folder=folder / "data", logs=folder / "logs")
    yield server
    server.kill()


@pytest.fixture
def seaweed(own_seaweed: SeaweedStore) -> SeaweedStore:
    """A store that tests may end: the next one starts it again."""
    own_seaweed.start()
    return own_seaweed


def read(server: ObjectStore, key: str) -> bytes:
    with closing(server.client()) as client:
        body: bytes = client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        return body


def refusal(server: ObjectStore, credentials: Credentials) -> int:
    """The HTTP status a PUT with these credentials is refused with."""
    with closing(server.client(credentials)) as client, pytest.raises(ClientError) as error:
        client.put_object(Bucket=BUCKET, Key="refused", Body=b"")
    return int(error.value.response["ResponseMetadata"]["HTTPStatusCode"])


def listening_addresses(server: ObjectStore) -> set[str]:
    connections = psutil.Process(server.pid).net_connections(kind="inet")
    return {each.laddr.ip for each in connections if each.status == psutil.CONN_LISTEN}


def test_an_object_comes_back_as_it_was_written(store: ObjectStore, s3: Any) -> None:
    s3.put_object(Bucket=BUCKET, Key=KEY, Body=b"PAR1")

    assert b"PAR1" == read(store, KEY)


def test_a_wrong_secret_is_refused(store: ObjectStore) -> None:
    assert 403 == refusal(store, Credentials(store.access_key, "wrong"))


def test_an_unknown_key_is_refused(store: ObjectStore) -> None:
    assert 403 == refusal(store, Credentials("nobody", store.secret_key))


def test_if_none_match_protects_an_object(store: ObjectStore, s3: Any) -> None:
    s3.put_object(Bucket=BUCKET, Key="once", Body=b"first")

    with pytest.raises(ClientError, match="PreconditionFailed"):
        s3.put_object(Bucket=BUCKET, Key="once", Body=b"second", IfNoneMatch="*")

    assert b"first" == read(store, "once")


def test_put_requests_are_counted_a_key(store: ObjectStore, s3: Any) -> None:
    before = Counter(store.put_requests())

    for key in (KEY, "counted", KEY):
        s3.put_object(Bucket=BUCKET, Key=key, Body=b"x")
    s3.get_object(Bucket=BUCKET, Key="counted")["Body"].read()
    s3.delete_object(Bucket=BUCKET, Key="counted")

    assert Counter({KEY: 2, "counted": 1}) == Counter(store.put_requests()) - before


def test_a_put_that_failed_its_precondition_is_counted(store: ObjectStore, s3: Any) -> None:
    s3.put_object(Bucket=BUCKET, Key="again", Body=b"x")
    with pytest.raises(ClientError):
        s3.put_object(Bucket=BUCKET, Key="again", Body=b"x", IfNoneMatch="*")

    assert 2 == store.put_requests().count("again")


def test_a_put_with_a_wrong_secret_is_not_counted(store: ObjectStore) -> None:
    refusal(store, Credentials(store.access_key, "wrong"))

    assert 0 == store.put_requests().count("refused")


def test_only_loopback_is_listened_on(store: ObjectStore) -> None:
    assert {LOOPBACK} == listening_addresses(store)


def test_a_put_into_another_bucket_is_refused(store: ObjectStore, s3: Any) -> None:
    with pytest.raises(ClientError, match="NoSuchBucket"):
        s3.put_object(Bucket="ocean", Key="a", Body=b"")


def test_the_secret_stays_out_of_reprs(store: ObjectStore) -> None:
    assert store.secret_key not in repr(store.credentials)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_seaweed_objects_survive_a_restart_on_the_same_endpoint(seaweed: SeaweedStore, end: str) -> None:
    with closing(seaweed.client()) as client:
        client.put_object(Bucket=BUCKET, Key=KEY, Body=b"PAR1")
    endpoint = seaweed.endpoint
    getattr(seaweed, end)()

    seaweed.start()

    assert (endpoint, b"PAR1") == (seaweed.endpoint, read(seaweed, KEY))


def test_seaweed_puts_are_counted_across_a_restart(seaweed: SeaweedStore) -> None:
    with closing(seaweed.client()) as client:
        client.put_object(Bucket=BUCKET, Key="before", Body=b"x")
        seaweed.kill()
        seaweed.start()
        client.put_object(Bucket=BUCKET, Key="after", Body=b"x")

    assert ["before", "after"] == seaweed.put_requests()[-2:]


def test_seaweed_objects_are_there_for_another_stack_in_the_same_folder(seaweed: SeaweedStore) -> None:
    with closing(seaweed.client()) as client:
        client.put_object(Bucket=BUCKET, Key=KEY, Body=b"PAR1")
    seaweed.kill()
    successor = SeaweedStore(bucket=BUCKET, folder=seaweed.folder, logs=seaweed.log_path.parent)

    successor.start()

    found = (read(successor, KEY), successor.put_requests())
    successor.kill()
    assert (b"PAR1", []) == found


def test_seaweed_leaves_no_socket_behind(seaweed: SeaweedStore) -> None:
    told = [
        line.rpartition(" ")[2] for line in seaweed.log_lines() if "also listening on Unix socket" in line
    ]
    ours = [f"{role}-{port}" for role, port in seaweed._ports.items()]
    ours += [f"{role}-grpc-{port + 10_000}" for role, port in seaweed._ports.items()]
    assert told

    seaweed.kill()

    # Of these names only: a store of another test may have been killed without a chance to clear its own.
    names = [*told, *(f"/tmp/seaweedfs-{name}.sock" for name in ours)]  # noqa: S108 - where weed puts them
    assert [] == [name for name in names if Path(name).exists()]


def test_seaweed_without_its_program_is_refused_with_a_remedy(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millpond.devstack.seaweed.shutil.which", lambda *_, **__: None)
    server = SeaweedStore(bucket=BUCKET, folder=folders.data, logs=folders.logs)

    with pytest.raises(MissingToolError, match=r"pip install 'millpond\[devstack\]'"):
        server.start()


def test_a_store_whose_log_tells_of_no_put_is_not_ready(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "logged_put", lambda _: None)

    with pytest.raises(NotReadyError, match="tells of no PutObject"):
        store.probe(Deadline(5))


def test_a_moto_store_that_ended_cannot_come_back(folders: Folders) -> None:
    server = MotoStore(bucket=BUCKET, folder=folders.data, logs=folders.logs)
    server.start()
    server.kill()

    with pytest.raises(PartFailedError, match="moto forgot its data"):
        server.start()
