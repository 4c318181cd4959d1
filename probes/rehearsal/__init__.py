"""A host that plays a recorded load: a real SSH server in this process, for the demo.

What watches it cannot tell: the same connection, the same commands, the same bytes. ``host.py`` starts it,
``commands.py`` answers what the probes run, ``story.py`` is the recording it plays.
"""

HOST = "llm-demo"
UNIT = "demo-30b-ngram.service"
