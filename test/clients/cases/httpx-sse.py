# packages: httpx httpx-sse
import json
import os

import httpx
from httpx_sse import connect_sse

url = os.environ["HERMES_URL"]
with httpx.Client(headers={"Authorization": "Bearer " + os.environ["HERMES_KEY"]}, timeout=60) as client:
    run = client.post(f"{url}/v1/runs", json={"input": 'play:[{"text": ["t", "wo"]}]'}).raise_for_status().json()["run_id"]
    with connect_sse(client, "GET", f"{url}/v1/runs/{run}/events") as source:
        events = [(event.id, json.loads(event.data)) for event in source.iter_sse()]
    assert events[-1][1]["event"] == "run.completed" and events[-1][1]["output"] == "two", events
    assert "".join(event["delta"] for _, event in events if event["event"] == "message.delta") == "two", events
    middle = len(events) // 2
    with connect_sse(client, "GET", f"{url}/v1/runs/{run}/events", headers={"Last-Event-ID": events[middle][0]}) as source:
        rest = [(event.id, json.loads(event.data)) for event in source.iter_sse()]
    assert [id for id, _ in rest] == [id for id, _ in events[middle + 1 :]], (events, rest)
