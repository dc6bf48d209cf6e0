"""The Helm chart, linted and rendered by Helm's own code."""

import copy
import shutil
from pathlib import Path
from typing import Any

import helm_python as helm
import pytest
import yaml

import millpond
from millpond import config

CHART = Path(__file__).resolve().parents[2] / "charts" / "millpond"
VALUE_FILES = sorted((CHART / "ci").glob("*-values.yaml"))

Values = dict[str, Any]
Manifest = dict[str, Any]


def values_of(name: str) -> Values:
    """The values of `ci/<name>-values.yaml`."""
    values: Values = yaml.safe_load((CHART / "ci" / f"{name}-values.yaml").read_text(encoding="utf-8"))
    return values


def changed(path: str, value: Any, base: str = "pipeline") -> Values:
    """The values of `base` with one of them, named by its dotted path, set to `value`."""
    values = copy.deepcopy(values_of(base))
    *parents, last = path.split(".")
    place = values
    for parent in parents:
        place = place.setdefault(parent, {})
    place[last] = value
    return values


def render(values: Values, chart: Path = CHART, name: str = "drain") -> dict[str, Manifest]:
    """The rendered objects by kind; the chart has one of each."""
    with helm.Chart.load(chart) as loaded:
        rendered = loaded.render(values, name=name, namespace="data")
    texts = [text for path, text in rendered.items() if path.endswith(".yaml")]
    documents = [document for text in texts for document in yaml.safe_load_all(text) if document]
    return {document["kind"]: document for document in documents}


def container(values: Values) -> dict[str, Any]:
    """The one container of the rendered pods."""
    (only,) = render(values)["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    return dict(only)


def rendered_environment(values: Values, ordinal: int = 0) -> dict[str, str]:
    """What the process in pod number `ordinal` finds in its environment; secrets read `<secret>/<key>`."""
    pod = f"{render(values)['StatefulSet']['metadata']['name']}-{ordinal}"
    environ = {}
    for variable in container(values)["env"]:
        source = variable.get("valueFrom", {})
        if "fieldRef" in source:
            assert source["fieldRef"]["fieldPath"] == "metadata.name"
            environ[variable["name"]] = pod
        elif "secretKeyRef" in source:
            environ[variable["name"]] = "{name}/{key}".format(**source["secretKeyRef"])
        else:
            environ[variable["name"]] = variable["value"]
            assert isinstance(variable["value"], str)
    return environ


@pytest.mark.parametrize("file", VALUE_FILES, ids=lambda file: file.stem)
def test_strict_lint_has_nothing_to_say(file: Path) -> None:
    values = yaml.safe_load(file.read_text(encoding="utf-8"))
    report = helm.lint(CHART, values, strict=True)
    worse_than_info = [message for message in report["messages"] if message["severity"] > 1]
    assert ([], []) == (report["errors"], worse_than_info)


@pytest.mark.parametrize("file", VALUE_FILES, ids=lambda file: file.stem)
def test_the_service_accepts_the_rendered_environment(file: Path) -> None:
    values = yaml.safe_load(file.read_text(encoding="utf-8"))
    loaded = config.load(rendered_environment(values))
    assert ((), values["pipeline"]["topic"]) == (loaded.warnings, loaded.kafka.topic)


def test_the_service_reads_the_pipeline_that_the_values_describe() -> None:
    loaded = config.load(rendered_environment(values_of("pipeline"), ordinal=7))
    assert (7, 8) == (loaded.service.ordinal, loaded.service.replicas)
    assert ("origin", "dest") == loaded.records.sort_by
    assert {"flight": "bigint", "time_hour": "timestamptz"} == loaded.records.typed_columns
    assert 3 == len(loaded.hoglake.partition_by)
    assert loaded.records.kafka_columns


def test_the_service_filters_as_the_values_say() -> None:
    filters = config.load(rendered_environment(values_of("pipeline"))).filters
    assert ("carrier", ("UA", "AA")) == (filters.keep_field, filters.keep_values)
    assert ("flight", (1, 15)) == (filters.drop_field, filters.drop_values)
    assert ("https://flags.example/carriers/", "authoritative") == (filters.url, filters.mode)
    assert "Authorization" == filters.auth_header


def test_the_service_quarantines_as_the_values_say() -> None:
    quarantine = {"mode": "skip", "maxFraction": 0.25, "onMismatch": "reject"}
    values = changed("pipeline.quarantine", quarantine | {"maxRecordBytes": 5_000_000, "maxColumns": 50})
    records = config.load(rendered_environment(values)).records
    assert ("skip", 0.25, "reject") == (
        records.quarantine,
        records.quarantine_max_fraction,
        records.on_mismatch,
    )
    assert (5_000_000, 50) == (records.max_record_bytes, records.max_columns)


def test_without_a_url_nothing_is_said_of_an_endpoint() -> None:
    environ = rendered_environment(changed("pipeline.includeValues.url", ""))
    assert [] == [name for name in environ if name.startswith("MILLPOND_INCLUDE_VALUES_")]


def test_large_values_of_a_filter_keep_their_digits() -> None:
    values = changed("pipeline.filter.drop.values", [9_007_199_254_740_991, "9223372036854775807"])
    environ = rendered_environment(values)
    assert "9007199254740991,9223372036854775807" == environ["MILLPOND_FILTER_DROP_VALUES"]


def test_chart_defaults_are_the_services_own_defaults() -> None:
    environ = rendered_environment(values_of("minimal"))
    required = {
        name: environ[name] for name in environ if name.startswith(("KAFKA_BOOT", "KAFKA_TOPIC", "HOGLAKE_"))
    }
    bare = {name: value for name, value in required.items() if not name.endswith(("_COUNT", "_TIMEOUT_S"))}
    bare |= {"POD_NAME": environ["POD_NAME"], "REPLICA_COUNT": "1"}
    assert config.load(bare) == config.load(environ)


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("replicas", 0, "/replicas"),
        ("replicas", "three", "/replicas"),
        ("replica", 3, "replica"),
        ("pipeline.topic", None, "topic"),
        ("pipeline.topic", "no spaces", "/pipeline/topic"),
        ("pipeline.tabel", "typo", "tabel"),
        ("pipeline.catalog", "Upper", "/pipeline/catalog"),
        ("pipeline.dataPath", "/local", "/pipeline/dataPath"),
        ("pipeline.partitionBy", ["truncate(a, b)"], "/pipeline/partitionBy"),
        ("pipeline.typedColumns", {"a": "int"}, "/pipeline/typedColumns"),
        ("pipeline.quarantine.mode", "drop", "/pipeline/quarantine/mode"),
        ("pipeline.quarantine.maxFraction", 0, "/pipeline/quarantine/maxFraction"),
        ("pipeline.quarantine.onMismatch", "drop", "/pipeline/quarantine/onMismatch"),
        ("pipeline.filter.keep.field", "team-id", "/pipeline/filter/keep/field"),
        ("pipeline.filter.drop.values", ["a,b"], "/pipeline/filter/drop/values"),
        ("pipeline.filter.drop.values", [9_007_199_254_740_993], "/pipeline/filter/drop/values"),
        ("pipeline.includeValues.mode", "static", "/pipeline/includeValues/mode"),
        ("pipeline.includeValues.url", "flags/teams", "/pipeline/includeValues/url"),
        ("pipeline.includeValues.removalPolls", 0, "/pipeline/includeValues/removalPolls"),
        ("pipeline.kafka.autoOffsetReset", "error", "/pipeline/kafka/autoOffsetReset"),
        ("pipeline.kafka.bootstrapServers", "", "/pipeline/kafka/bootstrapServers"),
        ("pipeline.hoglake.url", "hoglake:8080", "/pipeline/hoglake/url"),
        ("terminationGracePeriodSeconds", 10, "/terminationGracePeriodSeconds"),
        ("updateStrategy", "Recreate", "/updateStrategy"),
    ],
)
def test_values_against_the_schema_are_refused_by_name(path: str, value: Any, told: str) -> None:
    with pytest.raises(helm.HelmValuesError, match=told):
        render(changed(path, value))


def test_a_secret_among_the_kafka_properties_is_refused() -> None:
    with pytest.raises(helm.HelmRenderError, match=r"sasl\.password is a secret"):
        render(changed("pipeline.kafka.consumer", {"sasl.password": "hunter2"}))


@pytest.mark.parametrize("name", ["REPLICA_COUNT", "POD_NAME", "HOGLAKE_S3_SECRET_KEY"])
def test_extra_environment_cannot_overrule_the_chart(name: str) -> None:
    with pytest.raises(helm.HelmRenderError, match=f"{name} is set twice"):
        render(changed("pipeline.extraEnv", [{"name": name, "value": "1"}]))


def test_replicas_and_replica_count_are_one_value() -> None:
    values = changed("replicas", 13)
    spec = render(values)["StatefulSet"]["spec"]
    assert ("13", 13) == (rendered_environment(values)["REPLICA_COUNT"], spec["replicas"])


def test_a_pod_that_does_not_start_holds_up_no_other() -> None:
    """D10: in order, a broken image would stay until somebody deletes the pod by hand."""
    assert "Parallel" == render(values_of("pipeline"))["StatefulSet"]["spec"]["podManagementPolicy"]


def test_the_service_is_told_ten_seconds_less_than_the_pods_grace_period() -> None:
    values = changed("terminationGracePeriodSeconds", 300)
    pod = render(values)["StatefulSet"]["spec"]["template"]["spec"]
    grace = rendered_environment(values)["MILLPOND_GRACE_PERIOD_S"]
    assert ("290", 300) == (grace, pod["terminationGracePeriodSeconds"])


def test_large_numbers_keep_their_digits() -> None:
    values = changed("pipeline.flush.sizeBytes", 1_073_741_824)
    values["pipeline"]["kafka"]["consumer"] = {"queued.max.messages.kbytes": 1_048_576, "x.ratio": 0.25}
    environ = rendered_environment(values)
    names = ("FLUSH_SIZE", "KAFKA_CONSUMER_QUEUED_MAX_MESSAGES_KBYTES", "KAFKA_CONSUMER_X_RATIO")
    assert ["1073741824", "1048576", "0.25"] == [environ[name] for name in names]


def test_credentials_come_from_secrets_only() -> None:
    secrets = {
        "HOGLAKE_S3_ACCESS_KEY": "lake-credentials/access-key",
        "HOGLAKE_S3_SECRET_KEY": "lake-credentials/secret-key",
        "KAFKA_CONSUMER_SASL_PASSWORD": "kafka-credentials/password",
        "KAFKA_CONSUMER_SASL_USERNAME": "kafka-credentials/username",
        "MILLPOND_INCLUDE_VALUES_AUTH_TOKEN": "flags-credentials/token",
    }
    environ = rendered_environment(values_of("pipeline"))
    assert secrets == {name: environ[name] for name in secrets}


def test_without_secrets_the_aws_default_chain_is_left_alone() -> None:
    environ = rendered_environment(values_of("minimal"))
    assert [] == [name for name in environ if "KEY" in name or "PASSWORD" in name or name.startswith("AWS")]


@pytest.mark.parametrize("kind", ["Service", "PodDisruptionBudget", "StatefulSet"])
def test_every_selector_finds_the_pods(kind: str) -> None:
    values = changed("podLabels", {"team": "lake", "app.kubernetes.io/name": "other"})
    objects = render(values)
    selector = objects[kind]["spec"]["selector"]
    labels = objects["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    assert selector.get("matchLabels", selector).items() <= labels.items()


def test_objects_refer_to_each_other_by_names_that_exist() -> None:
    objects = render(values_of("pipeline"))
    spec = objects["StatefulSet"]["spec"]
    assert objects["Service"]["metadata"]["name"] == spec["serviceName"]
    assert objects["ServiceAccount"]["metadata"]["name"] == spec["template"]["spec"]["serviceAccountName"]
    assert "None" == objects["Service"]["spec"]["clusterIP"]


def test_a_pods_revision_label_stays_within_kubernetes_limit() -> None:
    objects = render(changed("fullnameOverride", "m" * 63))
    revision = objects["StatefulSet"]["metadata"]["name"] + "-" + "0" * 10
    assert len(revision) <= 63


def test_pods_run_without_privileges_on_a_read_only_root() -> None:
    pod = render(values_of("minimal"))["StatefulSet"]["spec"]["template"]["spec"]
    assert (True, "RuntimeDefault") == (
        pod["securityContext"]["runAsNonRoot"],
        pod["securityContext"]["seccompProfile"]["type"],
    )
    restricted = {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert restricted == pod["containers"][0]["securityContext"]


def test_probes_ask_for_life_and_for_readiness() -> None:
    asked = container(values_of("minimal"))
    paths = {name: asked[name]["httpGet"]["path"] for name in asked if name.endswith("Probe")}
    expected = {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
    assert expected == paths


def test_the_port_is_one_value_everywhere() -> None:
    values = changed("http.port", 9100)
    objects = render(values)
    annotations = objects["StatefulSet"]["spec"]["template"]["metadata"]["annotations"]
    ports = {
        "environment": rendered_environment(values)["MILLPOND_HTTP_PORT"],
        "annotation": annotations["prometheus.io/port"],
        "container": str(container(values)["ports"][0]["containerPort"]),
        "service": str(objects["Service"]["spec"]["ports"][0]["port"]),
    }
    assert dict.fromkeys(ports, "9100") == ports


def test_services_of_the_namespace_do_not_reach_the_environment() -> None:
    pod = render(values_of("minimal"))["StatefulSet"]["spec"]["template"]["spec"]
    assert pod["enableServiceLinks"] is False


def test_the_role_of_the_pods_is_an_annotation_of_their_account() -> None:
    role = {"eks.amazonaws.com/role-arn": "arn:aws:iam::123456789012:role/millpond"}
    account = render(changed("serviceAccount.annotations", role))["ServiceAccount"]
    assert role == account["metadata"]["annotations"]


def test_optional_objects_can_be_left_out() -> None:
    values = changed("podDisruptionBudget.enabled", value=False)
    values["serviceAccount"] = {"create": False, "name": "shared"}
    assert {"Service", "StatefulSet"} == set(render(values))


def test_the_chart_ships_the_version_of_the_package() -> None:
    with helm.Chart.load(CHART) as chart:
        metadata = chart.metadata
    assert (millpond.__version__, millpond.__version__) == (metadata["appVersion"], metadata["version"])


@pytest.fixture
def guarded_chart(tmp_path: Path) -> Path:
    """The chart with a template more, which shows the layout guard a StatefulSet out of `global.live`."""
    chart = tmp_path / "millpond"
    shutil.copytree(CHART, chart)
    probe = (
        '{{ include "millpond.refuseLayoutChange"'
        ' (dict "name" "drain" "replicas" .Values.replicas "live" .Values.global.live) }}'
    )
    (chart / "templates" / "guard.yaml").write_text(probe, encoding="utf-8")
    return chart


def live_statefulset(running: int, replica_count: int) -> Manifest:
    """What the API server would say of a release with this many pods and this layout."""
    env = [{"name": "POD_NAME"}, {"name": "REPLICA_COUNT", "value": str(replica_count)}]
    return {
        "spec": {"replicas": running, "template": {"spec": {"containers": [{"env": env}]}}},
        "status": {"replicas": running},
    }


def test_another_number_of_pods_is_refused_while_pods_run(guarded_chart: Path) -> None:
    values = values_of("pipeline") | {"global": {"live": live_statefulset(running=6, replica_count=6)}}
    with pytest.raises(helm.HelmRenderError, match=r"drain runs 6 pods .* going to 8"):
        render(values, guarded_chart)


@pytest.mark.parametrize(
    ("running", "replica_count"),
    [
        pytest.param(8, 8, id="same layout"),
        pytest.param(0, 6, id="another layout after all pods stopped"),
        pytest.param(7, 8, id="a pod scaled away by hand is put back"),
    ],
)
def test_an_upgrade_that_mixes_no_layouts_goes_through(
    guarded_chart: Path, running: int, replica_count: int
) -> None:
    live = live_statefulset(running, replica_count)
    assert "StatefulSet" in render(values_of("pipeline") | {"global": {"live": live}}, guarded_chart)
