"""Start-up: the catalog is there or is made, and the object store takes what uploads will send."""

from __future__ import annotations

import httpx
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    ReadTimeoutError,
)
from pyhoglake import AlreadyExistsError, Catalog, HoglakeError, MalformedResponseError, NotFoundError

from millpond.deadline import Deadline, SideCalls
from millpond.errors import DeadlineExceeded, Fatal, MillpondError, Retryable
from millpond.hoglake.client import CatalogClient
from millpond.hoglake.judgement import is_transient
from millpond.hoglake.store import BoundedStore
from millpond.logs import logger
from millpond.metrics import Metrics
from millpond.settings import HoglakeSettings

PROBE_KEY = "_millpond/probe"

_HINTS = {
    "NoSuchBucket": "the bucket does not exist: create it, or correct the catalog's data path",
    "AccessDenied": "the role lacks s3:PutObject there (or the use of the bucket's KMS key): grant it",
    "AllAccessDisabled": "the account or the bucket is closed: ask its owner",
    "InvalidAccessKeyId": "the access key is unknown to this store: correct HOGLAKE_S3_ACCESS_KEY",
    "SignatureDoesNotMatch": "the secret does not belong to the access key: correct HOGLAKE_S3_SECRET_KEY",
    "ExpiredToken": "the credentials have expired: renew them",
    "RequestTimeTooSkewed": "this machine's clock is off: set it",
    "PermanentRedirect": "the bucket is in another region: correct HOGLAKE_S3_REGION",
    "AuthorizationHeaderMalformed": "the bucket is in another region: correct HOGLAKE_S3_REGION",
    "IllegalLocationConstraintException": "the bucket is in another region: correct HOGLAKE_S3_REGION",
}
_OTHER_HINT = "check endpoint, region and credentials, and grant s3:PutObject on the data path"


def connect(settings: HoglakeSettings) -> CatalogClient:
    """A client for the configured server and store; nothing is sent yet."""
    key, secret = settings.s3_access_key, settings.s3_secret_key
    store = BoundedStore(
        access_key=key.get_secret_value() if key else None,
        secret_key=secret.get_secret_value() if secret else None,
        endpoint_override=settings.s3_endpoint,
        region=settings.s3_region,
    )
    return CatalogClient(settings.url, store=store, timeout=settings.request_timeout)


def resolve_catalog(client: CatalogClient, settings: HoglakeSettings) -> Catalog:
    """The configured catalog, created when it is missing and HOGLAKE_DATA_PATH says where.

    Raises:
        Fatal, Retryable: names the server, the catalog and what to do.
    """
    try:
        return client.catalog(settings.catalog)
    except NotFoundError as error:
        if settings.data_path is None:
            raise Fatal(
                f"catalog {settings.catalog!r} does not exist at {settings.url}; create it, correct "
                "HOGLAKE_CATALOG, or set HOGLAKE_DATA_PATH=s3://bucket/prefix to have it created"
            ) from error
    except (HoglakeError, httpx.HTTPError, DeadlineExceeded) as error:
        raise _unreachable(settings, error) from error
    try:
        return _create(client, settings.catalog, settings.data_path)
    except (HoglakeError, httpx.HTTPError, DeadlineExceeded) as error:
        raise _unreachable(settings, error) from error


def _create(client: CatalogClient, name: str, data_path: str) -> Catalog:
    try:
        return client.create_catalog(name, data_path)
    except AlreadyExistsError:
        return client.catalog(name)  # another replica was faster


def _unreachable(settings: HoglakeSettings, error: Exception) -> MillpondError:
    is_other_server = isinstance(error, MalformedResponseError)
    outcome = Retryable if is_transient(error) and not is_other_server else Fatal
    return outcome(
        f"the hoglake server at {settings.url} did not give catalog {settings.catalog!r} "
        f"({type(error).__name__}: {error}); check HOGLAKE_URL, the network, and that the server is up"
    )


def probe_store(
    client: CatalogClient,
    catalog: Catalog,
    settings: HoglakeSettings,
    *,
    metrics: Metrics,
    side_calls: SideCalls,
    deadline: Deadline,
) -> None:
    """Put an object and delete it again, over the same transport uploads take.

    boto3's tries can take longer than a start may, so they run aside, cut to `deadline`.

    Raises:
        Fatal: names object, bucket, endpoint, credential source and the likely remedy.
    """
    path = catalog.data_path.removeprefix("s3://").rstrip("/")
    bucket, _, prefix = path.partition("/")
    key = f"{prefix}/{PROBE_KEY}" if prefix else PROBE_KEY
    endpoint = settings.s3_endpoint or f"AWS S3 ({settings.s3_region or 'region not set'})"
    store = client.put_connection()
    try:
        side_calls.run(
            lambda: store.put_object(Bucket=bucket, Key=key, Body=b"millpond was here\n"),
            deadline,
            "object store probe",
        )
    except (BotoCoreError, ClientError, DeadlineExceeded) as error:
        source = "HOGLAKE_S3_ACCESS_KEY" if settings.s3_access_key else "the AWS default credential chain"
        raise Fatal(
            f"cannot write s3://{bucket}/{key} of catalog {catalog.name!r} at {endpoint} with credentials "
            f"from {source} ({error}); {_hint(error, settings)}"
        ) from error
    try:
        side_calls.run(lambda: store.delete_object(Bucket=bucket, Key=key), deadline, "probe clean-up")
    except (BotoCoreError, ClientError, DeadlineExceeded) as error:
        metrics.errors.inc(type="probe_cleanup")
        logger().info(
            "the probe object stays: deleting it is not allowed, or failed",
            object=f"s3://{bucket}/{key}",
            error=str(error),
        )
    logger().info("object store takes writes", bucket=bucket, endpoint=endpoint)


def _hint(error: Exception, settings: HoglakeSettings) -> str:
    if isinstance(error, ClientError):
        code = str(error.response.get("Error", {}).get("Code", ""))
        return _HINTS.get(code, _OTHER_HINT)
    if isinstance(error, (EndpointConnectionError, ConnectTimeoutError, ReadTimeoutError, DeadlineExceeded)):
        where = "HOGLAKE_S3_ENDPOINT" if settings.s3_endpoint else "HOGLAKE_S3_REGION"
        return f"nothing answers there: check {where} and the network"
    if isinstance(error, NoCredentialsError):
        return "no credentials were found: set HOGLAKE_S3_ACCESS_KEY and _SECRET_KEY, or give the pod a role"
    return _OTHER_HINT
