# SPDX-License-Identifier: Apache-2.0
"""A cluster of one node on this machine: real etcd, API server, controllers, scheduler, kubelet and
containerd.

All of it runs in a mount namespace and a network namespace of its own, below cgroups of its own.
The kubelet's folders, /run and the sysctls that it sets are private to the mount namespace, which
ends with its last process. `enter()` must have been called in this process before.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pathlib
import re
import select
import signal
import socket
import ssl
import subprocess
import time
import urllib.parse
from collections.abc import Callable, Iterator

from http.client import HTTPSConnection

from probe import needs_memory_filesystem

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[1]
CGROUPS = pathlib.Path("/sys/fs/cgroup")
NODE, NODE_ADDRESS, API_ADDRESS = "node1", "10.99.9.1", "10.99.0.1"
# Of a proxy before the API server, with the same certificate (proxy.py).
PROXY_ADDRESS = "10.99.0.2"
TOKEN = "admin-of-the-lab"
# What the pods may use together: a small node on a large machine.
PODS_MEMORY = 1536 << 20
# What the kubelet sets. It finds these files with these values instead of the host's.
SYSCTLS = {"vm/overcommit_memory": 1, "vm/panic_on_oom": 0, "kernel/panic": 10,
           "kernel/panic_on_oops": 1, "kernel/keys/root_maxkeys": 1000000,
           "kernel/keys/root_maxbytes": 25000000}
PATIENCE = 90
# The user of `forestall cluster` in the manifests.
CLUSTER_USER = 47532
CAP_SYS_RESOURCE = 24
# Of cgroup v1; other work of the root has 1,024 for each process at nice 0.
CPU_SHARES_MAX = 262_144
NEW_KEY = ("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out")
# Name, subject and alternative names.
SERVER_CERTIFICATE = ("server", "/CN=kube-apiserver",
                      f"IP:127.0.0.1,IP:{API_ADDRESS},IP:{PROXY_ADDRESS}")


class LabError(Exception):
    pass


class ApiError(LabError):
    """An answer of the API server with an error."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def run(*command: object, **more) -> str:
    words = [str(word) for word in command]
    more.setdefault("stdin", subprocess.DEVNULL)
    ran = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if ran.returncode != 0:
        raise LabError(f"{' '.join(words)} exited with {ran.returncode}: {ran.stdout}")
    return ran.stdout


class LabCgroups:
    """One folder in each cgroup hierarchy: `system` for the lab's services, `kubepods` for pods."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.roots = [path for path in sorted(CGROUPS.iterdir())
                      if not path.is_symlink() and (path / "cgroup.procs").exists()]

    def create(self) -> None:
        for root in self.roots:
            folder = root / self.name
            for made in (folder, folder / "system"):
                made.mkdir()
                # The cluster stands for a machine: other work on this one must not take its CPUs.
                if (made / "cpu.shares").exists() and made == folder:
                    (made / "cpu.shares").write_text(str(CPU_SHARES_MAX))
                for file in ("cpuset.cpus", "cpuset.mems"):
                    if root.name == "cpuset":
                        (made / file).write_text((root / file).read_text())

    def join(self) -> None:
        for root in self.roots:
            (root / self.name / "system/cgroup.procs").write_text(str(os.getpid()))

    def folders(self) -> Iterator[pathlib.Path]:
        for root in self.roots:
            for path, _, _ in os.walk(root / self.name, topdown=False):
                yield pathlib.Path(path)

    def processes(self) -> set[int]:
        pids: set[int] = set()
        for folder in self.folders():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                pids |= {int(pid) for pid in (folder / "cgroup.procs").read_text().split()}
        return pids - {os.getpid()}

    def end_processes(self) -> None:
        """Kills what is in these cgroups, and waits until all of it has exited."""
        deadline = time.monotonic() + PATIENCE
        while pids := self.processes():
            if time.monotonic() > deadline:
                raise LabError(f"processes of the lab do not end: {pids}")
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    pidfd = os.pidfd_open(pid)
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                    select.select([pidfd], [], [], 5)
                    os.close(pidfd)
            # Reaps those that have become children of this process.
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass

    def remove(self) -> None:
        for folder in list(self.folders()):
            folder.rmdir()


class Api:
    """Requests to the API server, and watches with a deadline."""

    def __init__(self, authority: pathlib.Path) -> None:
        self.context = ssl.create_default_context(cafile=str(authority))

    def open(self, method: str, path: str, body: object = None,
             kind: str = "application/json"):
        """The connection, and an answer that is read as it comes."""
        connection = HTTPSConnection(API_ADDRESS, timeout=PATIENCE, context=self.context)
        headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/json",
                   "Content-Type": kind}
        connection.request(method, path, body and json.dumps(body), headers)
        answer = connection.getresponse()
        if answer.status >= 400:
            with contextlib.closing(connection):
                problem = f"{method} {path}: {answer.status} {answer.read().decode()}"
            raise ApiError(problem, answer.status)
        return connection, answer

    def call(self, method: str, path: str, body: object = None,
             kind: str = "application/json") -> dict:
        connection, answer = self.open(method, path, body, kind)
        with contextlib.closing(connection):
            return json.loads(answer.read())

    def get(self, path: str) -> dict:
        return self.call("GET", path)

    def wait(self, path: str, holds: Callable[[str, dict], bool], what: str,
             patience: float = PATIENCE, **query: str) -> dict:
        """The first object of `path` for which `holds(type of event, object)`."""
        query |= {"watch": "1", "timeoutSeconds": str(int(patience))}
        target = f"{path}?{urllib.parse.urlencode(query)}"
        connection, answer = self.open("GET", target)
        with contextlib.closing(connection):
            last = None
            deadline = time.monotonic() + patience
            while time.monotonic() < deadline:
                connection.sock.settimeout(max(0.1, deadline - time.monotonic()))
                try:
                    line = answer.readline()
                except TimeoutError:
                    break
                if not line:
                    break
                event = json.loads(line)
                last = event["object"]
                if holds(event["type"], last):
                    return last
        raise LabError(f"not within {patience} s: {what}; last: {json.dumps(last)}")


class Service:
    """A program of the lab, with its output in a file. `notifies`: it reports by sd_notify that it
    is ready."""

    def __init__(self, lab: Lab, name: str, command: list[object], notifies: bool) -> None:
        self.name, self.command, self.notifies = name, command, notifies
        self.log = lab.folder / f"{name}.log"
        environment = {"PATH": f"{lab.tools}/usr/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin",
                       "HOME": str(lab.folder), "GOMAXPROCS": "2"}
        with contextlib.ExitStack() as files:
            if notifies:
                path = str(lab.folder / f"{name}.notify")
                pathlib.Path(path).unlink(missing_ok=True)
                ready = files.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
                ready.bind(path)
                ready.settimeout(PATIENCE)
                environment["NOTIFY_SOCKET"] = path
            output = files.enter_context(self.log.open("ab"))
            self.process = subprocess.Popen(
                [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=output,
                stderr=output, env=environment, start_new_session=True)
            while notifies:
                try:
                    if b"READY=1" in ready.recv(4096):
                        break
                except TimeoutError:
                    raise LabError(f"{name} is not ready: {self.tail()}") from None

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def private_mounts(folder: pathlib.Path) -> None:
    """Changes of the lab to /var, /run and these sysctls stay in this mount namespace."""
    run("mount", "--make-rshared", "/")
    files = folder / "files"
    files.mkdir()
    # The names of the mounts show in the host's state, if they should leave this namespace.
    if needs_memory_filesystem(folder):
        run("mount", "-t", "tmpfs", folder.name, files)
    for name in ("upper", "work", "kubelet", "containerd", "values"):
        (files / name).mkdir()
    run("mount", "-t", "overlay", folder.name, "-o",
        f"lowerdir=/var,upperdir={files}/upper,workdir={files}/work", "/var")
    run("mount", "-t", "tmpfs", folder.name, "/run")
    # Not on the overlay, which cannot carry the overlays of containers.
    for name in ("kubelet", "containerd"):
        place = pathlib.Path("/var/lib") / name
        place.mkdir(exist_ok=True)
        run("mount", "--bind", files / name, place)
        run("mount", "--make-shared", place)
    for name, value in SYSCTLS.items():
        file = files / "values" / name.replace("/", ".")
        file.write_text(f"{value}\n")
        run("mount", "--bind", file, f"/proc/sys/{name}")


def own_network() -> None:
    run("ip", "link", "set", "lo", "up")
    for address in (NODE_ADDRESS, API_ADDRESS, PROXY_ADDRESS):
        run("ip", "address", "add", f"{address}/32", "dev", "lo")


class Lab:
    def __init__(self, folder: pathlib.Path, cache: pathlib.Path, name: str) -> None:
        self.folder, self.cache, self.tools = folder, cache, cache / "tools"
        self.cgroups = LabCgroups(name)
        self.pki = folder / "pki"
        self.services: dict[str, Service] = {}
        self.kubeconfig = folder / "admin.conf"
        # Of the kubelet: a file for each static pod.
        self.static_pods = folder / "static"
        # Of the node's memory, and of that of all pods.
        self.kubelet_threshold = "1Mi"

    def start(self) -> None:
        private_mounts(self.folder)
        self.static_pods.mkdir()
        own_network()
        self.cgroups.join()
        self._make_keys()
        self.api = Api(self.pki / "ca.crt")
        self._start_control_plane()
        self._start_containerd()
        self.start_kubelet()
        self.api.wait("/api/v1/nodes", lambda _, node: is_ready(node), "the node is ready")
        self.api.wait("/api/v1/namespaces/default/serviceaccounts",
                      lambda _, account: bool(account.get("secrets")), "a service account")

    def stop(self) -> None:
        for service in reversed(self.services.values()):
            service.stop()
        self.cgroups.end_processes()

    def start_service(self, name: str, *command: object, notifies: bool = True) -> None:
        self.services[name] = Service(self, name, list(command), notifies)

    def restart_service(self, name: str) -> None:
        old = self.services[name]
        old.stop()
        self.start_service(name, *old.command, notifies=old.notifies)

    def kubectl(self, *command: object, plugins: pathlib.Path | None = None, **more) -> str:
        """`plugins`: a folder of kubectl's plugins."""
        environment = os.environ | {"KUBECONFIG": str(self.kubeconfig)}
        if plugins:
            environment["PATH"] = f"{plugins}:{environment['PATH']}"
        return run("kubectl", *command, env=environment, **more)

    def audit(self) -> Iterator[dict]:
        """Requests of Forestall's service accounts that the API server has answered."""
        file = self.folder / "audit.log"
        # The API server creates it at the first of them, and may be writing the last line.
        lines = file.read_text().split("\n") if file.exists() else [""]
        yield from map(json.loads, lines[:-1])

    def account_kubeconfig(self, namespace: str, account: str,
                           server: str = API_ADDRESS) -> pathlib.Path:
        """A kubeconfig with the token of a service account."""
        path = f"/api/v1/namespaces/{namespace}"
        secrets = self.api.get(f"{path}/serviceaccounts/{account}")["secrets"]
        token = self.api.get(f"{path}/secrets/{secrets[0]['name']}")["data"]["token"]
        file = self.folder / f"{account}-{server.replace(':', '-')}.conf"
        self._write_kubeconfig(file, base64.b64decode(token).decode(), server)
        return file

    def import_image(self, archive: pathlib.Path) -> str:
        return run("ctr", "-n", "k8s.io", "images", "import", archive)

    def _openssl(self, *command: object) -> None:
        run("openssl", *command, cwd=self.pki)

    def _make_authority(self, name: str) -> None:
        self._openssl(*NEW_KEY, f"{name}.key")
        self._openssl("req", "-x509", "-new", "-key", f"{name}.key", "-subj", f"/CN=lab {name}",
                      "-days", "2", "-out", f"{name}.crt")

    def _make_certificate(self, authority: str, name: str, subject: str, alternatives: str) -> None:
        self._openssl(*NEW_KEY, f"{name}.key")
        self._openssl("req", "-new", "-key", f"{name}.key", "-subj", subject, "-out", "csr")
        (self.pki / "extensions").write_text(f"subjectAltName={alternatives}\n")
        self._openssl("x509", "-req", "-in", "csr", "-CA", f"{authority}.crt", "-CAkey",
                      f"{authority}.key", "-CAcreateserial", "-days", "2", "-extfile",
                      "extensions", "-out", f"{name}.crt")

    def replace_authority(self) -> None:
        """The API server's certificate becomes one of a new authority, which is added to those that
        the services trust. Each service has what it read at its start until it is restarted."""
        self._make_authority("new-ca")
        self._make_certificate("new-ca", *SERVER_CERTIFICATE)
        with (self.pki / "ca.crt").open("a", encoding="ascii") as trusted:
            trusted.write((self.pki / "new-ca.crt").read_text())
        self.api = Api(self.pki / "ca.crt")

    def _make_keys(self) -> None:
        self.pki.mkdir()
        self._make_authority("ca")
        self._openssl(*NEW_KEY, "sa.key")
        self._openssl("ec", "-in", "sa.key", "-pubout", "-out", "sa.pub")
        for name, subject, alternatives in (
            SERVER_CERTIFICATE,
            ("kubelet", f"/O=system:nodes/CN=system:node:{NODE}", f"IP:{NODE_ADDRESS},DNS:{NODE}"),
            ("client", "/O=system:masters/CN=apiserver-to-kubelet", "DNS:client"),
        ):
            self._make_certificate("ca", name, subject, alternatives)
        (self.pki / "tokens.csv").write_text(
            f'{TOKEN},admin,admin,"system:masters"\n'
            f'node-of-the-lab,system:node:{NODE},node,"system:nodes"\n')
        for name, token in (("admin", TOKEN), ("kubelet", "node-of-the-lab")):
            self._write_kubeconfig(self.folder / f"{name}.conf", token)

    def _write_kubeconfig(self, file: pathlib.Path, token: str,
                          server: str = API_ADDRESS) -> None:
        file.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "lab",
            "clusters": [{"name": "lab", "cluster": {
                "server": f"https://{server}",
                "certificate-authority": str(self.pki / "ca.crt")}}],
            "users": [{"name": "user", "user": {"token": token}}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "user"}}]}))

    def _write_audit_policy(self) -> pathlib.Path:
        file = self.folder / "audit-policy.json"
        users = [f"system:serviceaccount:forestall:{account}"
                 for account in ("forestall", "forestall-rebalance")]
        file.write_text(json.dumps({
            "apiVersion": "audit.k8s.io/v1", "kind": "Policy",
            "rules": [{"level": "Metadata", "users": users, "omitStages": ["RequestReceived"]},
                      {"level": "None"}]}))
        return file

    def _start_control_plane(self) -> None:
        binaries, pki = self.cache / "bin", self.pki
        self.start_service(
            "etcd", self.tools / "usr/bin/etcd", "--data-dir", self.folder / "etcd",
            "--unsafe-no-fsync", "--listen-client-urls=http://127.0.0.1:2379",
            "--advertise-client-urls=http://127.0.0.1:2379",
            "--listen-peer-urls=http://127.0.0.1:2380")
        self.start_service(
            "kube-apiserver", binaries / "kube-apiserver", "--etcd-servers=http://127.0.0.1:2379",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-signing-key-file={pki}/sa.key",
            f"--service-account-key-file={pki}/sa.pub", "--secure-port=443",
            "--bind-address=0.0.0.0", f"--advertise-address={NODE_ADDRESS}",
            "--endpoint-reconciler-type=none", f"--tls-cert-file={pki}/server.crt",
            f"--tls-private-key-file={pki}/server.key", f"--client-ca-file={pki}/ca.crt",
            f"--token-auth-file={pki}/tokens.csv", "--service-cluster-ip-range=10.99.0.0/24",
            "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true", "--insecure-port=0",
            f"--audit-policy-file={self._write_audit_policy()}",
            f"--audit-log-path={self.folder}/audit.log", "--audit-log-mode=blocking-strict",
            "--kubelet-preferred-address-types=InternalIP",
            f"--kubelet-client-certificate={pki}/client.crt",
            f"--kubelet-client-key={pki}/client.key",
            f"--kubelet-certificate-authority={pki}/ca.crt")
        self.start_service(
            "kube-controller-manager", binaries / "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}", f"--root-ca-file={pki}/ca.crt",
            f"--service-account-private-key-file={pki}/sa.key", "--leader-elect=false", "--port=0",
            "--secure-port=0", "--node-monitor-grace-period=1h",
            "--controllers=*,-bootstrapsigner,-tokencleaner,-csrsigning",
            notifies=False)
        self.start_service(
            "kube-scheduler", binaries / "kube-scheduler", f"--kubeconfig={self.kubeconfig}",
            "--leader-elect=false", "--port=0", "--secure-port=0", notifies=False)

    def _start_containerd(self) -> None:
        network = self.folder / "cni"
        network.mkdir()
        (network / "10-lab.conflist").write_text(json.dumps({
            "cniVersion": "0.4.0", "name": "lab", "plugins": [
                {"type": "bridge", "bridge": "lab0", "isGateway": True, "ipam": {
                    "type": "host-local", "ranges": [[{"subnet": "10.98.0.0/24"}]],
                    "routes": [{"dst": "0.0.0.0/0"}], "dataDir": str(network / "addresses")}},
            ]}))
        configuration = (HERE / "containerd.toml").read_text()
        for name, value in (("FOLDER", self.folder), ("TOOLS", self.tools),
                            ("RESTRICT", str(not host_has(CAP_SYS_RESOURCE)).lower())):
            configuration = configuration.replace(f"${name}", str(value))
        (self.folder / "containerd.toml").write_text(configuration)
        self.start_service("containerd", "containerd", "-c", self.folder / "containerd.toml")
        for name, source in (("pause", TOP / "tests/integration/cri/pause.c"),
                             ("hog", HERE / "hog.c"), ("hostile", HERE / "hostile.c")):
            run("gcc", "-static", "-O1", "-D_GNU_SOURCE", "-o", self.folder / name, source)
            archive = self.folder / f"{name}.tar"
            run("python3", TOP / "tests/integration/cri/pack_image.py", self.folder / name,
                f"localhost/{name}:1", archive)
            self.import_image(archive)

    def kubelet_settings(self) -> dict:
        reserved = memory_of_host() - PODS_MEMORY
        nothing = {"nodefs.available": "0%", "imagefs.available": "0%", "nodefs.inodesFree": "0%"}
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "cgroupDriver": "cgroupfs", "cgroupRoot": f"/{self.cgroups.name}",
            "staticPodPath": str(self.static_pods),
            "enforceNodeAllocatable": ["pods"], "systemReserved": {"memory": str(reserved)},
            "evictionHard": {"memory.available": self.kubelet_threshold, **nothing},
            "failSwapOn": False,
            "address": NODE_ADDRESS, "readOnlyPort": 0, "healthzPort": 0, "oomScoreAdj": 0,
            "tlsCertFile": str(self.pki / "kubelet.crt"),
            "tlsPrivateKeyFile": str(self.pki / "kubelet.key"),
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True},
                               "x509": {"clientCAFile": str(self.pki / "ca.crt")}},
            "authorization": {"mode": "Webhook"}, "makeIPTablesUtilChains": False,
            "evictionPressureTransitionPeriod": "1s",
            "imageGCHighThresholdPercent": 100, "nodeStatusUpdateFrequency": "4s",
            "clusterDNS": [], "maxOpenFiles": 4096,
        }

    def start_kubelet(self) -> None:
        # At kubeadm's path, where the agent's configuration expects it.
        file = pathlib.Path("/var/lib/kubelet/config.yaml")
        file.write_text(json.dumps(self.kubelet_settings()))
        runtime = "unix:///run/containerd/containerd.sock"
        self.start_service(
            "kubelet", self.cache / "bin/kubelet", f"--config={file}",
            f"--kubeconfig={self.folder}/kubelet.conf", f"--hostname-override={NODE}",
            f"--node-ip={NODE_ADDRESS}", "--container-runtime=remote",
            f"--container-runtime-endpoint={runtime}", f"--image-service-endpoint={runtime}",
            "--pod-infra-container-image=localhost/pause:1",
            f"--cert-dir={self.folder}/kubelet-pki")


def host_has(capability: int) -> bool:
    status = pathlib.Path("/proc/self/status").read_text()
    effective = re.search(r"^CapEff:\s*(\S+)", status, re.MULTILINE)[1]
    return bool(int(effective, 16) >> capability & 1)


def memory_of_host() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def is_ready(thing: dict) -> bool:
    """Of a node or a pod."""
    return any(each["type"] == "Ready" and each["status"] == "True"
               for each in thing.get("status", {}).get("conditions") or [])
