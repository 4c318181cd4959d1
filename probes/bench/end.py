"""Runs in the server's container, handed over on standard input: ends the benchmark, which the end of the command that
started it from outside does not. FL_DIR: the folder that stands on its command line."""

import contextlib
import os
import signal

for entry in os.listdir("/proc"):
    if entry.isdigit() and int(entry) != os.getpid():
        with contextlib.suppress(OSError), open("/proc/" + entry + "/cmdline", "rb") as file:
            if os.environ["FL_DIR"].encode() in file.read():
                os.kill(int(entry), signal.SIGTERM)
