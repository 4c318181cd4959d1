"""Runs on the server's own Python, handed over on standard input: prints the server's /metrics. FL_METRICS: its URL."""

import os
import ssl
import sys
import urllib.request

request = urllib.request.Request(os.environ["FL_METRICS"])
if os.environ.get("OPENAI_API_KEY"):
    request.add_header("Authorization", "Bearer " + os.environ["OPENAI_API_KEY"])
anybody = ssl._create_unverified_context()  # it is its own host's loopback
with urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=anybody)).open(
    request, timeout=15
) as answer:
    sys.stdout.buffer.write(answer.read(8 << 20))
