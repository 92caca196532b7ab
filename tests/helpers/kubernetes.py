"""A stand-in for a Kubernetes cluster: it answers Snakemake's plugin, and runs pods as processes of this machine."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import yaml


class Cluster:
    """Pods run in folders of their own below `folder`, with the environment that their job names and no other.

    Attributes
    ----------
    jobs : name -> what was asked for; refused : why a real cluster would not have taken a job.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.jobs, self.refused = folder, {}, []
        self._secrets, self._pods = {}, {}
        # a pod installs plugins from an index, which is out of reach here; its image is this environment
        (folder / "bin").mkdir(parents=True)
        (folder / "bin/pip").write_text("#!/bin/sh\nexit 0\n")
        (folder / "bin/pip").chmod(0o755)

    def answer(self, method: str, path: str, body: dict | None) -> dict:
        name = path.split("?")[0].rstrip("/").split("/")[-1]
        if method == "POST" and name == "secrets":
            self._secrets[body["metadata"]["name"]] = body["data"]
        elif method == "POST" and name == "jobs":
            self._start(body)
        elif method == "GET" and name == "status":
            job = path.split("/")[-2]
            return {"metadata": {"name": job}, "status": self._status(job)}
        elif method == "GET":
            return {"items": []}
        return body or {}

    def _start(self, job: dict) -> None:
        name = job["metadata"]["name"]
        (container,) = job["spec"]["template"]["spec"]["containers"]
        self.jobs[name] = container
        wanted = container["resources"]
        for resource in wanted["requests"]:
            # https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus: requests of these need the same limit
            limit = wanted.get("limits", {}).get(resource)
            if "/" in resource and limit != wanted["requests"][resource]:
                self.refused.append(
                    f"{resource}: limit must be set for non overcommitable resources"
                )
        workdir = self.folder / name
        workdir.mkdir()
        environment = {
            "PATH": f"{self.folder}/bin:{Path(sys.executable).parent}:/usr/bin:/bin",
            "HOME": str(workdir),
            # what library of linear algebra it is, as it were: numbers of another differ in their last bits
            **{name: value for name, value in os.environ.items() if name.startswith("OPENBLAS_")},
        }
        for one in container["env"]:
            key = one["valueFrom"]["secretKeyRef"]
            value = self._secrets[key["name"]][key["key"]]
            environment[one["name"]] = base64.b64decode(value).decode()
        with open(self.folder / f"{name}.log", "w") as log:
            self._pods[name] = subprocess.Popen(
                [*container["command"], *container["args"]],
                cwd=workdir,
                env=environment,
                stdout=log,
                stderr=log,
            )

    def _status(self, name: str) -> dict:
        ended = self._pods[name].poll()
        return {"active": 1} if ended is None else {"failed" if ended else "succeeded": 1}

    def logs(self) -> str:
        return "\n".join(path.read_text() for path in self.folder.glob("*.log"))

    def asked(self, rule: str) -> list[dict]:
        """The containers of a rule's jobs."""
        return [
            one
            for one in self.jobs.values()
            if re.search(rf"--allowed-rules [\w ]*\b{rule}\b", one["args"][1])
        ]


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Cluster]:
    """The cluster, which what is started meanwhile finds by ``KUBECONFIG``."""
    cluster = Cluster(folder)

    class Handler(BaseHTTPRequestHandler):
        def _reply(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            content = json.dumps(cluster.answer(self.command, self.path, body)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = _reply

        def log_message(self, *arguments) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    known = {"cluster": {"server": f"http://127.0.0.1:{server.server_port}"}, "name": "test"}
    context = {"context": {"cluster": "test", "user": "test"}, "name": "test"}
    settings = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [known],
        "users": [{"name": "test", "user": {"token": "test"}}],
        "contexts": [context],
        "current-context": "test",
    }
    (folder / "kubeconfig").write_text(yaml.safe_dump(settings))
    before = os.environ.get("KUBECONFIG")
    os.environ["KUBECONFIG"] = str(folder / "kubeconfig")
    try:
        yield cluster
    finally:
        if before is None:
            del os.environ["KUBECONFIG"]
        else:
            os.environ["KUBECONFIG"] = before
        server.shutdown()
