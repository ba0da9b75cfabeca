"""The manifests of deploy/kubernetes: valid for the API of Kubernetes, hardened, and consistent with the service."""

from __future__ import annotations

import functools
import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from service.secret_files import SUFFIX
from service.settings import PREFIX, Settings, address_of, secret_fields
from tests.deploy.test_compose import DEVELOPMENT, read

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy/kubernetes"
BASE, *OVERLAYS = (FOLDER / name for name in ("base", "overlays/with-redis", "overlays/production"))
OLDEST, NEWEST = "1.27", kubernetes_validate.latest_version().rpartition(".")[0]
"""Versions of Kubernetes with which the manifests agree; the oldest is named in the guide."""
Manifest = dict[str, Any]


def documents(path: Path) -> list[Manifest]:
    return [each for each in yaml.safe_load_all(path.read_text("utf-8")) if each is not None]


def compose(folder: Path) -> list[Manifest]:
    """Return the manifests of a folder with its patches, as kustomize renders them without names and labels."""
    kustomization = documents(folder / "kustomization.yaml")[0]
    found: list[Manifest] = []
    for name in kustomization["resources"]:
        path = (folder / name).resolve()
        found += compose(path) if path.is_dir() else documents(path)
    for patch in kustomization.get("patches", ()):
        for change in yaml.safe_load_all((folder / patch["path"]).read_text("utf-8")):
            apply(change, found, patch.get("target", {}).get("kind"))
    for each in found:
        if each["kind"] != "Namespace":
            each["metadata"]["namespace"] = kustomization["namespace"]
    return found


def apply(change: Any, manifests: list[Manifest], kind: str | None) -> None:
    """Merge a patch into its manifest, or add the values of a list of operations to all manifests of a kind."""
    if isinstance(change, dict):
        [patched] = [each for each in manifests if identity(each) == identity(change)]
        merge(patched, change)
        return
    for manifest in (each for each in manifests if each["kind"] == kind):
        for operation in change:
            place: Any = manifest
            *path, end = operation["path"].split("/")[1:]
            for key in path:
                place = place[int(key)] if isinstance(place, list) else place[key]
            assert (operation["op"], end) == ("add", "-")
            place.append(operation["value"])


def merge(into: Manifest, change: Manifest) -> None:
    for key, value in change.items():
        if isinstance(value, dict) and key in into:
            merge(into[key], value)
        else:
            assert not isinstance(value, list), "kustomize merges lists by rules of each kind"
            into[key] = value


def identity(manifest: Manifest) -> tuple[str, str]:
    return manifest["kind"], manifest["metadata"]["name"]


COMMANDS = [[name, word] for name, word in (("kustomize", "build"), ("kubectl", "kustomize")) if shutil.which(name)]
"""Commands of this machine that render a folder."""


@functools.cache
def rendered_by_kustomize(folder: Path) -> str:
    return subprocess.run([*COMMANDS[0], folder], check=True, capture_output=True, text=True).stdout


RENDERINGS = [(each, how) for each in (BASE, *OVERLAYS) for how in ("read", "kustomize")]


@pytest.fixture(params=RENDERINGS, ids=[f"{each.name}-{how}" for each, how in RENDERINGS])
def manifests(request: pytest.FixtureRequest) -> list[Manifest]:
    folder, how = request.param
    if how == "read":
        return compose(folder)
    if not COMMANDS:
        pytest.skip("neither kustomize nor kubectl is on PATH")
    return list(yaml.safe_load_all(rendered_by_kustomize(folder)))


@functools.cache
def validate(manifest: str, version: str) -> None:
    kubernetes_validate.validate(json.loads(manifest), version, strict=True)


def of_kind(manifests: list[Manifest], *kinds: str) -> list[Manifest]:
    return [each for each in manifests if each["kind"] in kinds]


def workloads(manifests: list[Manifest]) -> list[Manifest]:
    return of_kind(manifests, "Deployment", "StatefulSet")


def named(manifests: list[Manifest], kind: str, name: str) -> Manifest:
    [found] = [each for each in manifests if identity(each) == (kind, name)]
    return found


def container_of(workload: Manifest) -> Manifest:
    [container] = workload["spec"]["template"]["spec"]["containers"]
    return container


def probes_of(container: Manifest) -> Iterator[tuple[str, Manifest]]:
    for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
        yield kind, container[kind]


def is_selected(selector: Manifest, workload: Manifest) -> bool:
    assert set(selector) <= {"matchLabels"}
    wanted = selector.get("matchLabels", {}).items()
    return wanted <= workload["spec"]["template"]["metadata"]["labels"].items()


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_manifests_are_valid(manifests: list[Manifest], version: str) -> None:
    for each in manifests:
        validate(json.dumps(each, sort_keys=True), version)


def test_validation_refuses_what_kubernetes_refuses() -> None:
    wrong = named(compose(BASE), "Deployment", "api")
    container_of(wrong)["readinesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, NEWEST, strict=True)


def test_every_file_is_rendered() -> None:
    for folder in (BASE, *OVERLAYS):
        kustomization = documents(folder / "kustomization.yaml")[0]
        used = {*kustomization["resources"], *(each["path"] for each in kustomization.get("patches", ()))}
        assert {each.name for each in folder.iterdir()} == {"kustomization.yaml"} | {u for u in used if "/" not in u}


def test_pods_have_no_rights(manifests: list[Manifest]) -> None:
    """Pods keep the rules of the profile `restricted` of Pod Security, and have a read-only root file system."""
    for workload in workloads(manifests):
        pod, container = workload["spec"]["template"]["spec"], container_of(workload)
        assert pod["automountServiceAccountToken"] is False
        assert not any(pod.get(each) for each in ("hostNetwork", "hostPID", "hostIPC", "initContainers"))
        context = pod["securityContext"]
        assert context["runAsNonRoot"] is True
        assert context["runAsUser"] == context["runAsGroup"] == context["fsGroup"] > 0
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"cpu", "memory"} <= set(container["resources"]["requests"])
        assert "memory" in container["resources"]["limits"]
        assert not any("hostPath" in volume for volume in pod["volumes"])
    [namespace] = of_kind(manifests, "Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    own = re.search(r"(?m)^USER (\d+):(\d+)$", (ROOT / "Dockerfile").read_text("utf-8").rpartition("\nFROM ")[2])
    assert own
    user = named(manifests, "Deployment", "api")["spec"]["template"]["spec"]["securityContext"]["runAsUser"]
    assert own.groups() == (str(user), str(user))


def test_selectors_select(manifests: list[Manifest]) -> None:
    every = workloads(manifests)
    for workload in every:
        assert [each for each in every if is_selected(workload["spec"]["selector"], each)] == [workload]
        for spread in workload["spec"]["template"]["spec"].get("topologySpreadConstraints", ()):
            assert is_selected(spread["labelSelector"], workload)
    for service in of_kind(manifests, "Service"):
        [chosen] = [each for each in every if is_selected({"matchLabels": service["spec"]["selector"]}, each)]
        ports = {port["name"] for port in container_of(chosen)["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports
    for budget in of_kind(manifests, "PodDisruptionBudget"):
        assert len([each for each in every if is_selected(budget["spec"]["selector"], each)]) == 1
    for scaler in of_kind(manifests, "HorizontalPodAutoscaler"):
        target = scaler["spec"]["scaleTargetRef"]
        scaled = named(manifests, target["kind"], target["name"])
        assert scaled["apiVersion"] == target["apiVersion"]
        assert "replicas" not in scaled["spec"], "the number of replicas is that of the scaler"
        assert "cpu" in container_of(scaled)["resources"]["requests"], "utilization is a share of the request"
        assert scaler["spec"]["minReplicas"] < scaler["spec"]["maxReplicas"]
    for ingress in of_kind(manifests, "Ingress"):
        for path in (path for rule in ingress["spec"]["rules"] for path in rule["http"]["paths"]):
            backend = path["backend"]["service"]
            service = named(manifests, "Service", backend["name"])
            assert backend["port"]["name"] in {port["name"] for port in service["spec"]["ports"]}


def test_network_is_closed_but_for_named_ports(manifests: list[Manifest]) -> None:
    policies, every = of_kind(manifests, "NetworkPolicy"), workloads(manifests)
    nothing = named(manifests, "NetworkPolicy", "nothing")["spec"]
    assert nothing == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    opened: set[tuple[str, str | int]] = set()
    for policy in policies:
        spec = policy["spec"]
        chosen = [each for each in every if is_selected(spec["podSelector"], each)]
        assert chosen or identity(policy)[1] in ("nothing", "names"), identity(policy)
        for rule in spec.get("ingress", ()):
            assert rule["from"], "from everywhere"
            for port in rule["ports"]:
                assert all(port["port"] in {each["name"] for each in container_of(one)["ports"]} for one in chosen)
                opened |= {(one["metadata"]["name"], port["port"]) for one in chosen}
        for rule in spec.get("egress", ()):
            assert rule["to"], "to everywhere"
            assert all("port" in port for port in rule["ports"])
    declared = {(each["metadata"]["name"], port["name"]) for each in every for port in container_of(each)["ports"]}
    assert opened == declared, "a port without a policy, or a policy without a port"


def test_settings_are_those_of_the_service(manifests: list[Manifest], monkeypatch: pytest.MonkeyPatch) -> None:
    data = named(manifests, "ConfigMap", "settings")["data"]
    files = {f"{PREFIX}{name.upper()}{SUFFIX}": name for name in secret_fields()}
    fields = {name: value for name, value in data.items() if name not in files}
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    assert set(fields) <= known
    for name, value in {**fields, f"{PREFIX}SEAL_KEY": "k" * 32}.items():
        monkeypatch.setenv(name, value)
    settings = Settings()
    assert settings.jobs_backend == "celery"
    for name in ("api", "worker"):
        container = container_of(named(manifests, "Deployment", name))
        assert container["envFrom"] == [{"configMapRef": {"name": "settings"}}]
        assert "env" not in container, "secrets come as files"
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert address_of(data[f"{PREFIX}OPERATOR_BIND"]) == ("0.0.0.0", ports["operators"])
        scraped = named(manifests, "Deployment", name)["spec"]["template"]["metadata"]["annotations"]
        assert scraped["prometheus.io/port"] == str(ports["operators"])
    assert data[f"{PREFIX}REQUIRE_AUTHENTICATION"] == "true"


def test_secrets_are_referenced_and_never_written(manifests: list[Manifest]) -> None:
    assert of_kind(manifests, "Secret") == []
    data = named(manifests, "ConfigMap", "settings")["data"]
    files = {value for name, value in data.items() if name.endswith(SUFFIX)}
    assert files
    for workload in workloads(manifests):
        pod, container = workload["spec"]["template"]["spec"], container_of(workload)
        volumes = {each["name"]: each for each in pod["volumes"]}
        volumes |= {each["metadata"]["name"]: {} for each in workload["spec"].get("volumeClaimTemplates", ())}
        mounts = {each["name"]: each for each in container["volumeMounts"]}
        assert set(volumes) == set(mounts)
        secret = volumes["secrets"]["secret"]
        assert secret["secretName"] == "privacy-bounds"
        assert secret["defaultMode"] in (0o440, 440), "read by the group of the pod alone"
        assert mounts["secrets"]["readOnly"] is True
        if workload["kind"] == "Deployment":
            assert {str(Path(path).parent) for path in files} == {mounts["secrets"]["mountPath"]}
        else:
            assert [item["key"] for item in secret["items"]] == ["redis_password"]


def test_probes_are_routes(manifests: list[Manifest]) -> None:
    routes = json.loads((ROOT / "api_schemas/openapi.json").read_text("utf-8"))["paths"]
    for workload in workloads(manifests):
        container = container_of(workload)
        ports = {port["name"] for port in container["ports"]}
        for kind, probe in probes_of(container):
            if "httpGet" in probe:
                assert probe["httpGet"]["port"] in ports
                assert "get" in routes[probe["httpGet"]["path"]]
            if kind == "livenessProbe" and "httpGet" in probe:
                assert probe["httpGet"]["path"] == "/livez", "readiness depends on Redis: it must not restart a pod"


def test_pods_end_in_order(manifests: list[Manifest]) -> None:
    data = named(manifests, "ConfigMap", "settings")["data"]
    drain, shutdown = (float(data[f"{PREFIX}{name}_SECONDS"]) for name in ("DRAIN", "SHUTDOWN_TIMEOUT"))
    api = named(manifests, "Deployment", "api")
    [command, seconds] = container_of(api)["lifecycle"]["preStop"]["exec"]["command"]
    assert command == "sleep"
    assert float(seconds) + drain + shutdown < api["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]


def test_limits_are_those_of_the_compose_file(manifests: list[Manifest]) -> None:
    """Limits of containers are those of the compose file.

    tests/contract/test_security.py shows that the settings of the compose file fit into these limits.
    """
    composed = read(DEVELOPMENT)
    data = named(manifests, "ConfigMap", "settings")["data"]
    for name in ("WORKER_COUNT", "WORKER_MEMORY_LIMIT_BYTES", "JOB_STORED_BYTES"):
        assert data[f"{PREFIX}{name}"] == composed["x-settings"][f"{PREFIX}{name}"]
    for workload in workloads(manifests):
        service = composed["services"][workload["metadata"]["name"]]
        limit = service["deploy"]["resources"]["limits"]["memory"]
        assert container_of(workload)["resources"]["limits"]["memory"] == limit.replace("m", "Mi")
        assert workload["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] >= int(
            service["stop_grace_period"].rstrip("s")
        )


def test_commands_are_those_of_the_compose_file(manifests: list[Manifest]) -> None:
    services = read(DEVELOPMENT)["services"]
    for workload in workloads(manifests):
        composed = services[workload["metadata"]["name"]]["command"]
        own = container_of(workload)["command"]
        folder = "/run/secrets/redis"
        assert own == [
            each.replace("/run/secrets/redis_password", folder) for each in composed if each != "--share-port"
        ]


def test_redis_is_that_of_the_compose_file() -> None:
    redis = named(compose(FOLDER / "overlays/with-redis"), "StatefulSet", "redis")
    assert container_of(redis)["image"] == read(DEVELOPMENT)["services"]["redis"]["image"]


def test_files_of_redis_are_copies() -> None:
    [copies] = documents(FOLDER / "overlays/with-redis/redis-files.yaml")
    originals = {path.name: path.read_text("utf-8") for path in (ROOT / "deploy/redis").iterdir()}
    assert copies["data"] == originals


def test_tags_of_images_are_the_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    for folder in (BASE, *OVERLAYS):
        [image] = documents(folder / "kustomization.yaml")[0]["images"]
        assert (image["name"], image["newTag"]) == ("privacy-bounds", version)
