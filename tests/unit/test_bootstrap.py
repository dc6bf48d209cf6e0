"""Start-up problems are told with object, place, credentials and the likely remedy."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError, ReadTimeoutError
from pyhoglake import Catalog
from pyhoglake.models import CatalogInfo

from millpond.deadline import Deadline, SideCalls
from millpond.errors import Fatal, MillpondError, Retryable
from millpond.hoglake.bootstrap import connect, probe_store, resolve_catalog
from millpond.hoglake.store import BoundedStore
from millpond.settings import HoglakeSettings
from tests.unit.fakes import metrics, value
from tests.unit.lake import InProcess, MemoryStore
from tests.unit.test_config import loaded


def settings(**environ: str) -> HoglakeSettings:
    """The sink's settings."""
    return loaded(**environ).hoglake


def refused(code: str) -> ClientError:
    """An answer of the object store."""
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "PutObject")


class Probe:
    """One probe of an object store that does what it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, data_path: str = "s3://lake/data/") -> None:
        self.store = MemoryStore()
        self.metrics = metrics()
        self.data_path = data_path
        monkeypatch.setattr(BoundedStore, "connection", lambda _self, _connections, _seconds: self.store)

    def run(self, **environ: str) -> None:
        options = settings(**environ)
        with connect(options) as client:
            catalog = Catalog(client, CatalogInfo("lake", self.data_path, 1, 1))
            probe_store(
                client, catalog, options, metrics=self.metrics, side_calls=SideCalls(), deadline=Deadline(60)
            )

    def complaint(self, failure: Exception, **environ: str) -> str:
        self.store.harm = lambda _: failure
        with pytest.raises(Fatal) as refusal:
            self.run(**environ)
        return str(refusal.value)


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> Probe:
    return Probe(monkeypatch)


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        ("NoSuchBucket", "bucket does not exist"),
        ("AccessDenied", "s3:PutObject"),
        ("InvalidAccessKeyId", "HOGLAKE_S3_ACCESS_KEY"),
        ("SignatureDoesNotMatch", "HOGLAKE_S3_SECRET_KEY"),
        ("ExpiredToken", "expired"),
        ("RequestTimeTooSkewed", "clock"),
        ("PermanentRedirect", "HOGLAKE_S3_REGION"),
        ("AuthorizationHeaderMalformed", "HOGLAKE_S3_REGION"),
        ("IllegalLocationConstraintException", "HOGLAKE_S3_REGION"),
        ("SomethingNew", "check endpoint, region and credentials"),
    ],
)
def test_what_the_store_answers_is_told_with_the_likely_remedy(probe: Probe, code: str, remedy: str) -> None:
    complaint = probe.complaint(refused(code))
    assert "cannot write s3://lake/data/_millpond/probe of catalog 'lake'" in complaint
    assert remedy in complaint


@pytest.mark.parametrize(
    ("environ", "variable"),
    [
        ({"HOGLAKE_S3_ENDPOINT": "http://store:9000"}, "HOGLAKE_S3_ENDPOINT"),
        ({"HOGLAKE_S3_REGION": "eu-west-9"}, "HOGLAKE_S3_REGION"),
    ],
)
@pytest.mark.parametrize("kind", [EndpointConnectionError, ReadTimeoutError])
def test_a_store_that_does_not_answer_points_to_what_names_it(
    probe: Probe, environ: dict[str, str], variable: str, kind: Any
) -> None:
    complaint = probe.complaint(kind(endpoint_url="http://store:9000", error="x"), **environ)
    assert f"nothing answers there: check {variable}" in complaint
    assert next(iter(environ.values())) in complaint


def test_missing_credentials_are_named(probe: Probe) -> None:
    complaint = probe.complaint(NoCredentialsError())
    assert "the AWS default credential chain" in complaint
    assert complaint.endswith(
        "; no credentials were found: set HOGLAKE_S3_ACCESS_KEY and _SECRET_KEY, or give the pod a role"
    )


@pytest.mark.parametrize("answer", [{}, {"Error": {}}])
def test_an_answer_that_names_no_cause_points_to_all_there_is_to_check(probe: Probe, answer: Any) -> None:
    complaint = probe.complaint(ClientError(answer, "PutObject"))
    assert complaint.endswith(
        "; check endpoint, region and credentials, and grant s3:PutObject on the data path"
    )


def test_the_source_of_static_credentials_is_named_and_their_value_is_not(probe: Probe) -> None:
    complaint = probe.complaint(
        refused("AccessDenied"), HOGLAKE_S3_ACCESS_KEY="AKIAMADEUP", HOGLAKE_S3_SECRET_KEY="hunter2"
    )
    assert "from HOGLAKE_S3_ACCESS_KEY" in complaint
    assert "AKIAMADEUP" not in complaint
    assert "hunter2" not in complaint


@pytest.mark.parametrize(
    ("data_path", "expected"),
    [
        ("s3://lake", "_millpond/probe"),
        ("s3://lake/", "_millpond/probe"),
        ("s3://lake/a/b", "a/b/_millpond/probe"),
    ],
)
def test_the_probe_lies_under_the_data_path_and_is_taken_away(
    monkeypatch: pytest.MonkeyPatch, data_path: str, expected: str
) -> None:
    probe = Probe(monkeypatch, data_path)
    probe.run()
    assert ([expected], {}) == (probe.store.puts, probe.store.objects)


def test_a_probe_that_cannot_be_taken_away_is_counted_and_no_reason_to_stop(
    probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: str) -> None:
        raise refused("AccessDenied")

    monkeypatch.setattr(probe.store, "delete_object", fail)
    probe.run()
    assert value(probe.metrics, "millpond_errors_total", type="probe_cleanup") == 1


def resolved(transport: httpx.BaseTransport, **environ: str) -> str:
    """The data path of the catalog a server gives."""
    options = settings(**environ)
    with connect(options) as client:
        client._http._transport = transport
        return str(resolve_catalog(client, options).data_path)


def test_a_missing_catalog_is_made_where_the_data_path_says(tmp_path: Path) -> None:
    server = InProcess(tmp_path / "catalog.sqlite")
    assert resolved(server, HOGLAKE_DATA_PATH="s3://lake/data").rstrip("/") == "s3://lake/data"
    assert resolved(server, HOGLAKE_DATA_PATH="s3://other/data").rstrip("/") == "s3://lake/data"
    server.shut_down()


def test_a_missing_catalog_without_a_data_path_names_both_remedies(tmp_path: Path) -> None:
    server = InProcess(tmp_path / "catalog.sqlite")
    with pytest.raises(Fatal, match="catalog 'lake' does not exist at http://catalog:8080") as refusal:
        resolved(server)
    assert "HOGLAKE_CATALOG" in str(refusal.value)
    assert "HOGLAKE_DATA_PATH" in str(refusal.value)
    server.shut_down()


def test_a_catalog_made_by_a_faster_replica_is_taken() -> None:
    catalog = {"name": "lake", "data_path": "s3://lake/data", "head_snapshot_id": 1, "schema_version": 1}
    answers = iter(
        [
            httpx.Response(404, json={"error": "not_found"}),
            httpx.Response(409, json={"error": "already_exists"}),
            httpx.Response(200, json=catalog),
        ]
    )
    requests = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(f"{request.method} {request.url.path}")
        return next(answers)

    server = httpx.MockTransport(answer)
    assert resolved(server, HOGLAKE_DATA_PATH="s3://lake/data") == "s3://lake/data"
    assert ["GET /v1/catalogs/lake", "POST /v1/catalogs", "GET /v1/catalogs/lake"] == requests


def test_a_catalog_made_by_a_faster_replica_that_cannot_be_read_is_no_defect() -> None:
    statuses = iter([404, 409, 503])
    server = httpx.MockTransport(lambda _: httpx.Response(next(statuses)))
    with pytest.raises(Retryable, match=r"did not give catalog 'lake' .* HOGLAKE_URL"):
        resolved(server, HOGLAKE_DATA_PATH="s3://lake/data")


@pytest.mark.parametrize(
    ("status", "outcome"), [(400, Fatal), (403, Fatal), (429, Retryable), (500, Retryable), (502, Retryable)]
)
@pytest.mark.parametrize("environ", [{}, {"HOGLAKE_DATA_PATH": "s3://lake/data"}])
def test_a_server_that_fails_is_named_with_the_variable_to_check(
    status: int, outcome: type[MillpondError], environ: dict[str, str]
) -> None:
    """G15: what may pass is asked again."""
    server = httpx.MockTransport(lambda _: httpx.Response(status))
    with pytest.raises(
        outcome, match=r"http://catalog:8080 did not give catalog 'lake' .* check HOGLAKE_URL"
    ):
        resolved(server, **environ)


def test_a_server_that_does_not_answer_is_named_with_the_variable_to_check() -> None:
    def refuse(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with pytest.raises(Retryable, match=r"\(ConnectError: refused\); check HOGLAKE_URL"):
        resolved(httpx.MockTransport(refuse))


def test_something_else_that_answers_at_the_address_is_told_as_such() -> None:
    """A web page with status 200 is no catalog."""
    server = httpx.MockTransport(lambda _: httpx.Response(200, text="<html>"))
    with pytest.raises(Fatal, match="check HOGLAKE_URL"):
        resolved(server)
