# packages: schemathesis
import os
import subprocess
import sys

url, key = os.environ["HERMES_URL"], os.environ["HERMES_KEY"]
# Not what ends the server, or waits for what never comes.
left_out = ["--exclude-path-regex", "restart|shutdown|/events$|/stream$"]
done = subprocess.run(
    ["schemathesis", "run", f"{url}/openapi.json", "--header", f"Authorization: Bearer {key}", *left_out]
    + ["--max-examples", "5", "--phases", "examples,coverage,fuzzing", "--generation-database", "none", "--seed", "1"]
    + ["--request-timeout", "30", "--workers", "2", "--no-color", "--max-failures", "20"],
    text=True,
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
)
print(done.stdout[-5000:])
sys.exit(done.returncode)
