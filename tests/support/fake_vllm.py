"""A Python with a package `vllm` in it whose server loads no model: for what is done with servers, not for answers.

Its behaviour is told by variables of the manifest (`vllm.env`): `FAKE_VLLM` is `die` for one that ends while it starts,
`late` for one that never answers, `stubborn` for one that does not end when it is asked to.
"""

import base64
import json
import sys
import venv
from hashlib import sha256
from pathlib import Path
from typing import Any

from tiny_runs import write_manifest

SERVER = '''
"""Answers as vLLM's server does where dis asks it, and `/seen` with what it was started with."""

import http.server
import json
import os
import signal
import subprocess
import sys
import time

said = dict(each.removeprefix("--").split("=", 1) for each in sys.argv[1:] if "=" in each)
mode = os.environ.get("FAKE_VLLM")
print("fake vLLM reads", said["model"], flush=True)
with open(os.path.join(said["model"], "config.json")) as opened:
    opened.read()
if mode == "die":
    sys.exit("fake vLLM: there is no room for keys and values")
# Said, because the first process of a container does not end by it otherwise; what it started goes on then.
signal.signal(signal.SIGTERM, signal.SIG_IGN if mode == "stubborn" else lambda *_: os._exit(0))
# As vLLM does it: another process computes.
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
if mode == "late":
    time.sleep(600)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        answers = {
            "/health": None,
            "/version": {"version": "0"},
            "/v1/models": {"data": [{"id": said["served-model-name"], "max_model_len": 64}]},
            "/seen": {"arguments": sys.argv[1:], "variables": dict(os.environ)},
        }
        self.send_response(200 if self.path in answers else 404)
        self.end_headers()
        if answers.get(self.path) is not None:
            self.wfile.write(json.dumps(answers[self.path]).encode())

    def log_message(self, *args):
        pass


http.server.ThreadingHTTPServer((said["host"], int(said["port"])), Handler).serve_forever()
'''
_MODULES = {
    "vllm/__init__.py": "",
    "vllm/entrypoints/__init__.py": "",
    "vllm/entrypoints/openai/__init__.py": "",
    "vllm/entrypoints/openai/api_server.py": SERVER,
}


def write_package(place: Path) -> None:
    """Write the modules below a directory that is imported from."""
    for name, text in _MODULES.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def fake_python(place: Path) -> Path:
    """Make an environment with the package installed in it, as an installer would; return its interpreter."""
    venv.create(place, with_pip=False, symlinks=True)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    site = place / "lib" / version / "site-packages"
    write_package(site)
    info = site / "vllm-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0\n", "utf-8")
    lines = [_recorded(site, path) for path in (*_MODULES, "vllm-0.dist-info/METADATA")]
    (info / "RECORD").write_text("\n".join([*lines, "vllm-0.dist-info/RECORD,,", ""]), "utf-8")
    return place / "bin" / "python"


def _recorded(site: Path, path: str) -> str:
    data = (site / path).read_bytes()
    digest = base64.urlsafe_b64encode(sha256(data).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(data)}"


def servable_manifest(place: Path, **blocks: Any) -> Path:
    """Write a manifest of a tiny random model for the engine vllm, and return it."""
    path = write_manifest(place, **blocks)
    document = json.loads(path.read_text("utf-8"))
    document["runtime"]["execution"]["backend"] = "vllm"
    document["vllm"]["engine_args"] |= {"dtype": "float32", "max_model_len": 64}
    path.write_text(json.dumps(document), "utf-8")
    return path
