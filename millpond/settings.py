"""The environment variables, by concern, each declared once with type, range, default and one sentence.

`docs/configuration.md` is generated from these declarations (`millpond.config_reference`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from millpond.budget import MAX_FLUSH_SECONDS
from millpond.partition_by import PartitionTerm, parse_partition_by
from millpond.start_at import StartAt, parse_start_at


def _url(text: str) -> str:
    if re.fullmatch(r"https?://[^\s/]+(/\S*)?", text) is None:
        raise ValueError("must be an http:// or https:// URL")
    return text.rstrip("/")


def lower(text: Any) -> Any:
    """Names of a choice may be written in any case."""
    return text.strip().lower() if isinstance(text, str) else text


def _level(text: Any) -> Any:
    """A level as the logging module spells it; it takes these two short names as well."""
    name = text.strip().upper() if isinstance(text, str) else text
    return {"WARN": "WARNING", "FATAL": "CRITICAL"}.get(name, name)


PartitionBy = Annotated[
    tuple[PartitionTerm, ...], NoDecode, BeforeValidator(lambda t: parse_partition_by(str(t)))
]
Start = Annotated[StartAt, NoDecode, BeforeValidator(lambda text: parse_start_at(str(text)))]
Url = Annotated[str, AfterValidator(_url)]


class Section(BaseSettings):
    """The variables of one concern."""

    model_config = SettingsConfigDict(
        frozen=True, extra="ignore", populate_by_name=False, validate_default=False
    )

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Self:
        """Validate this section's variables out of `environ`, whose blank values are gone already."""
        source = EnvSettingsSource(cls, case_sensitive=True)
        source.env_vars = environ
        return cls(**source())

    @classmethod
    def settings_customise_sources(  # type: ignore[override] # the rest is what we refuse to read
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the signature is pydantic's
        init_settings: PydanticBaseSettingsSource,
        **_ambient: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what `read` hands in: never the ambient environment behind its back."""
        return (init_settings,)


class KafkaSettings(Section):
    """Where records come from."""

    bootstrap_servers: str = Field(
        alias="KAFKA_BOOTSTRAP_SERVERS", description="Brokers to begin with, `host:port` separated by commas."
    )
    topic: str = Field(
        alias="KAFKA_TOPIC",
        pattern=r"^[a-zA-Z0-9._-]{1,249}$",
        description="The one topic this service drains.",
    )
    group_id: str | None = Field(
        None,
        alias="GROUP_ID",
        description="Kafka group that stores the offsets; `millpond-<destination>-<topic>-<table>` if unset.",
    )
    auto_offset_reset: Annotated[Literal["earliest", "latest"], BeforeValidator(lower)] = Field(
        "earliest",
        alias="KAFKA_AUTO_OFFSET_RESET",
        description="Where a partition begins that has no committed offset, or one outside the log.",
    )
    on_data_loss: Annotated[Literal["continue", "fail"], BeforeValidator(lower)] = Field(
        "continue",
        alias="KAFKA_ON_DATA_LOSS",
        description="What a start does when records it was to read are gone from the log: go on by the reset "
        "policy, warned of and counted, or end with code 1 before anything is committed.",
    )
    start_at: Start | None = Field(
        None,
        alias="KAFKA_START_AT",
        description="Where to begin instead, once: `partition:offset,…` or an ISO 8601 instant with its "
        "zone. Refused where the ledger shows that records from there on were published.",
    )
    broker_source: Annotated[str, BeforeValidator(lower)] = Field(
        "", alias="BROKER_SOURCE", description="Label `broker_source` on every metric, for example `msk`."
    )
    fetch_min_bytes: int = Field(
        1_048_576,
        alias="FETCH_MIN_BYTES",
        ge=1,
        le=100_000_000,
        description="librdkafka's `fetch.min.bytes`.",
    )
    fetch_max_wait_ms: int = Field(
        500, alias="FETCH_MAX_WAIT_MS", ge=0, le=300_000, description="librdkafka's `fetch.wait.max.ms`."
    )
    consume_batch_size: int = Field(
        1000,
        alias="CONSUME_BATCH_SIZE",
        ge=10,
        le=1_000_000,
        description="Most messages a consume call returns.",
    )
    stats_interval_ms: int = Field(
        5000,
        alias="STATS_INTERVAL_MS",
        ge=0,
        le=86_400_000,
        description="How often librdkafka's statistics become metrics; 0: never.",
    )
    aws_region: str | None = Field(
        None, alias="AWS_REGION", description="Region of the MSK IAM token (only with SASL OAUTHBEARER)."
    )
    aws_default_region: str | None = Field(
        None, alias="AWS_DEFAULT_REGION", description="Used where AWS_REGION is not set."
    )

    @property
    def token_region(self) -> str | None:
        """Region for MSK IAM tokens."""
        return self.aws_region or self.aws_default_region


class FlushSettings(Section):
    """When a buffer is published, and how long that may take."""

    size_bytes: int = Field(
        104_857_600,
        alias="FLUSH_SIZE",
        ge=1024,
        le=2_147_483_647,
        description="Arrow bytes in the buffer that start a flush. Two such buffers are held at most, beside "
        "the copy and the files of the flush in flight.",
    )
    interval_ms: int = Field(
        60_000,
        alias="FLUSH_INTERVAL_MS",
        ge=100,
        le=86_400_000,
        description="Age of the oldest record in the buffer that starts a flush.",
    )
    deadline_seconds: float = Field(
        float(MAX_FLUSH_SECONDS),
        alias="FLUSH_DEADLINE_S",
        ge=1,
        le=MAX_FLUSH_SECONDS,
        description="Time one flush may take, all attempts included; past it the process ends with code 3.",
    )
    grace_seconds: float = Field(
        110,
        alias="MILLPOND_GRACE_PERIOD_S",
        ge=1,
        le=86_400,
        description="Time from SIGTERM until everything is published; ten seconds or more below the pod's "
        "terminationGracePeriodSeconds.",
    )
    stops_at_end: bool = Field(
        default=False,
        alias="MILLPOND_STOP_AT_END",
        description="Drain up to the end the log had at the start, then end with code 0: for backfills.",
    )
    replay_epoch: str = Field(
        "",
        alias="MILLPOND_REPLAY_EPOCH",
        pattern=r"^[A-Za-z0-9._-]{0,64}$",
        description="Enters the identity of every flush: a new value lets a rewound group publish again.",
    )


class ServiceSettings(Section):
    """The process itself."""

    destination: Annotated[Literal["hoglake", "ducklake"], BeforeValidator(lower)] = Field(
        "hoglake",
        alias="MILLPOND_DESTINATION",
        description="The sink; this version refuses `ducklake`.",
    )
    replicas: int = Field(
        alias="REPLICA_COUNT",
        ge=1,
        le=10_000,
        description="Replicas of the StatefulSet; must equal its `replicas`.",
    )
    pod_name: str | None = Field(
        None, alias="POD_NAME", description="Ends in `-<ordinal>`; HOSTNAME, then `millpond-0` where unset."
    )
    hostname: str | None = Field(None, alias="HOSTNAME", description="Used where POD_NAME is not set.")
    http_port: int = Field(
        8000,
        alias="MILLPOND_HTTP_PORT",
        ge=0,
        le=65_535,
        description="Port of /metrics, /healthz and /readyz; 0 picks a free one.",
    )
    log_level: Annotated[
        Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"], BeforeValidator(_level)
    ] = Field("INFO", alias="LOG_LEVEL", description="Lowest level that is logged.")
    log_format: Annotated[Literal["json", "text", "console"], BeforeValidator(lower)] = Field(
        "json",
        alias="MILLPOND_LOG_FORMAT",
        description="`json` for machines, `text` (or `console`) for people.",
    )
    version: str | None = Field(
        None,
        alias="MILLPOND_SERVICE_VERSION",
        description="Version named in each commit; the package's own where unset.",
    )

    @property
    def ordinal(self) -> int:
        """Which of the replicas this is."""
        return int(self._pod.rpartition("-")[2])

    @property
    def _pod(self) -> str:
        return self.pod_name or self.hostname or "millpond-0"

    @model_validator(mode="after")
    def _check_ordinal(self) -> Self:
        variable = "POD_NAME" if self.pod_name else "HOSTNAME"
        name = self._pod
        if re.search(r"-[0-9]+$", name) is None:
            raise ValueError(
                f"{variable}={name!r}: must end in a dash and the ordinal, as a StatefulSet names its pods"
            )
        if self.ordinal >= self.replicas:
            raise ValueError(
                f"{variable}={name!r}: ordinal {self.ordinal} is not below REPLICA_COUNT={self.replicas}; "
                "REPLICA_COUNT must equal the replicas of the StatefulSet"
            )
        if self.destination == "ducklake":
            raise ValueError("MILLPOND_DESTINATION='ducklake': this version writes to hoglake only; unset it")
        return self


class HoglakeSettings(Section):
    """Where rows go."""

    url: Url = Field(alias="HOGLAKE_URL", description="The catalog server; `/v1` is added.")
    catalog: str = Field(
        alias="HOGLAKE_CATALOG", pattern=r"^[a-z][a-z0-9_-]{0,62}$", description="Name of the catalog."
    )
    namespace: str = Field(
        alias="HOGLAKE_NAMESPACE",
        pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,127}$",
        description="Namespace; created by the first write.",
    )
    table: str = Field(
        alias="HOGLAKE_TABLE",
        pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,127}$",
        description="Table; created by the first write.",
    )
    data_path: str | None = Field(
        None,
        alias="HOGLAKE_DATA_PATH",
        pattern=r"^s3://[a-z0-9][a-z0-9.\-]{1,61}[a-z0-9](/.*)?$",
        description="Where a missing catalog is created; frozen into it for ever, and not read otherwise.",
    )
    s3_endpoint: Url | None = Field(
        None, alias="HOGLAKE_S3_ENDPOINT", description="URL of an object store other than AWS, such as MinIO."
    )
    s3_region: str | None = Field(
        None,
        alias="HOGLAKE_S3_REGION",
        description="Region of the bucket. Set it even with the default credential chain.",
    )
    s3_access_key: SecretStr | None = Field(
        None,
        alias="HOGLAKE_S3_ACCESS_KEY",
        description="Static key; with HOGLAKE_S3_SECRET_KEY or neither (AWS default chain).",
    )
    s3_secret_key: SecretStr | None = Field(
        None, alias="HOGLAKE_S3_SECRET_KEY", description="Secret of HOGLAKE_S3_ACCESS_KEY."
    )
    partition_by: PartitionBy = Field(
        (),
        alias="HOGLAKE_PARTITION_BY",
        description="Partition spec, for example `team_id, day(timestamp), bucket(person_id, 16)`.",
    )
    attempts: int = Field(
        6,
        alias="HOGLAKE_MAX_RETRY_COUNT",
        ge=1,
        le=100,
        description="Attempts of one flush, the first included.",
    )
    request_timeout: float = Field(
        45.0,
        alias="HOGLAKE_REQUEST_TIMEOUT_S",
        gt=0,
        le=MAX_FLUSH_SECONDS,
        description="Timeout of one catalog request; above the server's 30 s wait for its commit lock.",
    )
    upload_concurrency: int = Field(
        64, alias="PYHOGLAKE_UPLOAD_CONCURRENCY", ge=1, le=1024, description="Uploads of one flush at a time."
    )

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        if (self.s3_access_key is None) != (self.s3_secret_key is None):
            raise ValueError(
                "HOGLAKE_S3_ACCESS_KEY, HOGLAKE_S3_SECRET_KEY: only one of them is set; "
                "set both, or neither for the AWS default credential chain"
            )
        return self
