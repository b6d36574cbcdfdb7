# packages: openapi-python-client httpx attrs python-dateutil
import importlib
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import httpx

url, key = os.environ["HERMES_URL"], os.environ["HERMES_KEY"]
out = pathlib.Path(tempfile.mkdtemp()) / "made"
document = out.parent / "openapi.json"
document.write_bytes(httpx.get(f"{url}/openapi.json", headers={"Authorization": f"Bearer {key}"}).raise_for_status().content)
made = subprocess.run(
    ["openapi-python-client", "generate", "--path", document, "--output-path", out, "--meta", "none"],
    text=True,
    capture_output=True,
)
assert made.returncode == 0 and "WARNING" not in made.stdout + made.stderr, made.stdout + made.stderr
sys.path.insert(0, str(out.parent))
client = importlib.import_module("made").AuthenticatedClient(base_url=url, token=key)
api = "made.api." + next(path.parent.name for path in (out / "api").rglob("post_v1_runs.py"))
start, status = (importlib.import_module(f"{api}.{name}") for name in ("post_v1_runs", "get_v1_runs_id"))
body = importlib.import_module("made.models").PostV1RunsBody
run = start.sync(client=client, body=body(input_='play:[{"text": "one"}]'))
for _ in range(100):
    is_ = status.sync(run.run_id, client=client)
    if is_.status == "completed":
        break
    time.sleep(0.1)
assert is_.output == "one", is_
