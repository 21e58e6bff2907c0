"""The manifests are held against the product, and against the schemas of Kubernetes."""

import copy
import re
import shutil

import kubernetes_validate
import pytest

from tests.deploy.manifests import (
    OVERLAYS,
    POD_IP,
    base,
    container_of,
    made_by_kubectl,
    of_kind,
    processes,
)
from tests.deploy.processes import changed, problems_of, settings_of
from workers.api.routes.health import router
from workers.telemetry.metric_table import GATEWAY

VERSION = "1.32"
BASE = base()
PROCESSES = processes(BASE)
PATHS = {getattr(route, "path", "") for route in router.routes} | {"/metrics"}
OF_KEDA = "keda.sh/v1alpha1"
KEYS_OF_KEDA = {
    *("scaleTargetRef", "pollingInterval", "cooldownPeriod", "minReplicaCount"),
    *("maxReplicaCount", "advanced", "triggers"),
}
KEYS_OF_TRIGGER = {"type", "metricType", "metadata"}
kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not here")


def validate(document):
    kubernetes_validate.validate(document, VERSION, strict=True)


def test_there_are_gateways_and_workers():
    assert {process.kind for process in PROCESSES.values()} == {"gateway", "worker"}


@pytest.mark.parametrize("name", PROCESSES)
def test_a_process_has_the_settings_that_it_needs_and_no_others(name, tmp_path):
    assert problems_of(PROCESSES[name], tmp_path) == []
    assert POD_IP in settings_of(PROCESSES[name], tmp_path).host_names


@pytest.mark.parametrize("name", PROCESSES)
def test_what_is_wrong_with_a_process_is_said(name, tmp_path):
    for problem, process in changed(PROCESSES[name]):
        assert problem in "; ".join(problems_of(process, tmp_path))


@pytest.mark.parametrize(
    "document", BASE, ids=[f"{each['kind']}-{each['metadata']['name']}" for each in BASE]
)
def test_an_object_has_the_fields_of_its_kind_and_no_others(document):
    if document["kind"] != "ConfigMap":
        validate(document)


def test_a_field_that_there_is_not_is_said():
    document = copy.deepcopy(of_kind(BASE, "Deployment")["rotulus-gateway"])
    container_of(document)["readinesProbe"] = container_of(document).pop("readinessProbe")
    with pytest.raises(kubernetes_validate.ValidationError, match="readinesProbe"):
        validate(document)


@pytest.mark.parametrize("name", PROCESSES)
def test_a_probe_asks_a_path_and_a_port_that_there_are_under_a_name_that_is_answered_to(name):
    container = container_of(of_kind(BASE, "Deployment")[name])
    ports = {port["name"] for port in container["ports"]}
    for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
        request = container[kind]["httpGet"]
        assert request["path"] in PATHS
        assert request["port"] in ports
        assert request["httpHeaders"] == [{"name": "Host", "value": "localhost"}]
    if PROCESSES[name].kind == "gateway":
        assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
        assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"


@pytest.mark.parametrize("name", PROCESSES)
def test_a_pod_runs_as_nobody_on_a_read_only_root_and_writes_to_its_volumes(name):
    pod = of_kind(BASE, "Deployment")[name]["spec"]["template"]["spec"]
    container = container_of(of_kind(BASE, "Deployment")[name])
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    mounts = {each["mountPath"] for each in container["volumeMounts"]}
    variables = PROCESSES[name].variables
    assert {variables["ROTULUS_DATA_DIR"].rpartition("/")[0], "/tmp"} <= mounts  # noqa: S108
    assert variables["ROTULUS_SECRETS_DIR"] in mounts
    assert {each["name"] for each in container["volumeMounts"]} == {
        each["name"] for each in pod["volumes"]
    }


def test_whatever_selects_pods_selects_some():
    components = {
        each["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"]
        for each in of_kind(BASE, "Deployment").values()
    }
    texts = [str(each) for each in BASE]
    named = {name for text in texts for name in re.findall(r"/component': '(\w+)'", text)}
    assert named == components
    for kind in ("PodDisruptionBudget", "NetworkPolicy"):
        assert {*of_kind(BASE, kind)} == {*of_kind(BASE, "Deployment")}


@pytest.mark.parametrize("name", PROCESSES)
def test_a_policy_lets_in_at_the_port_at_which_the_process_listens(name):
    policy = of_kind(BASE, "NetworkPolicy")[name]["spec"]
    ports = {port["port"] for rule in policy["ingress"] for port in rule["ports"]}
    assert ports == PROCESSES[name].ports


def test_workers_ask_the_service_of_the_gateways():
    [(name, service)] = of_kind(BASE, "Service").items()
    [port] = service["spec"]["ports"]
    url = PROCESSES["rotulus-worker"].variables["ROTULUS_GATEWAY_URL"]
    assert url == f"http://{name}:{port['port']}"


@kubectl
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_is_whole(overlay, tmp_path):
    objects = made_by_kubectl(overlay)
    for document in objects:
        if document["apiVersion"] != OF_KEDA:
            validate(document)
    made = processes(objects)
    assert {*made} == {*PROCESSES}
    for process in made.values():
        assert problems_of(process, tmp_path) == []
    claims = of_kind(objects, "PersistentVolumeClaim")
    for deployment in of_kind(objects, "Deployment").values():
        for volume in deployment["spec"]["template"]["spec"]["volumes"]:
            if "persistentVolumeClaim" in volume:
                assert volume["persistentVolumeClaim"]["claimName"] in claims


@kubectl
def test_workers_are_scaled_by_the_age_of_what_waits():
    objects = made_by_kubectl("overlays/production")
    [scaled] = of_kind(objects, "ScaledObject").values()
    assert scaled["apiVersion"] == OF_KEDA
    spec = scaled["spec"]
    assert spec.keys() <= KEYS_OF_KEDA
    target = of_kind(objects, "Deployment")[spec["scaleTargetRef"]["name"]]
    assert "replicas" not in target["spec"], "two would say how many there are"
    [trigger] = spec["triggers"]
    assert trigger.keys() <= KEYS_OF_TRIGGER
    metrics = {metric.name: metric for metric in GATEWAY}
    names = re.findall(r"\brotulus_\w+", trigger["metadata"]["query"])
    assert names[0] == "rotulus_queue_oldest_eligible_age_seconds"
    for name in names:
        assert {"queue", "priority"} <= {*metrics[name].labels}


@kubectl
def test_the_ingress_leads_to_the_path_at_which_gateways_are(tmp_path):
    objects = made_by_kubectl("overlays/production")
    [ingress] = of_kind(objects, "Ingress").values()
    [rule] = ingress["spec"]["rules"]
    [path] = rule["http"]["paths"]
    gateway = settings_of(processes(objects)["rotulus-gateway"], tmp_path)
    assert path["path"] == gateway.path_prefix
    assert rule["host"] in gateway.host_names
    service = of_kind(objects, "Service")[path["backend"]["service"]["name"]]
    ports = {port["name"] for port in service["spec"]["ports"]}
    assert path["backend"]["service"]["port"]["name"] in ports
