# packages: prometheus-client
# needs: promtool
import os
import subprocess
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

request = urllib.request.Request(os.environ["HERMES_URL"] + "/metrics")
request.add_header("Authorization", "Bearer " + os.environ["HERMES_KEY"])
text = urllib.request.urlopen(request).read().decode()
assert len(list(text_string_to_metric_families(text))) > 5, text
done = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True)
# The names that begin so are those of prom-client, for every program that uses it.
ours = [line for line in done.stderr.splitlines() if not line.startswith("nodejs_")]
assert not ours, ours
