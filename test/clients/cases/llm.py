# packages: llm
import json
import os
import pathlib
import subprocess
import tempfile

home = pathlib.Path(tempfile.mkdtemp())
base = os.environ["OPENAI_BASE_URL"]
(home / "extra-openai-models.yaml").write_text(
    json.dumps([{"model_id": "hermes", "model_name": "hermes-agent", "api_base": base, "api_key_name": "hermes"}])
)
env = {**os.environ, "LLM_USER_PATH": str(home), "LLM_MODEL": "hermes"}


def llm(*args, given=None):
    done = subprocess.run(["llm", *args], env=env, text=True, capture_output=True, input=given)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


llm("keys", "set", "hermes", "--value", os.environ["OPENAI_API_KEY"])
assert llm("-m", "hermes", 'play:[{"text": ["o", "ne"]}]') == "one"
assert llm("-m", "hermes", "--no-stream", 'play:[{"text": "two"}]') == "two"
assert llm("-c", 'play:[{"text": "three"}]') == "three"
