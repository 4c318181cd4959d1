"""A watch that goes on without a terminal, and the terminals that look at it.

A daemon (``watch --daemon``, or ``web``) is an ordinary live watch that also answers on a UNIX socket. It is a folder's
entry in the runtime folder (``place``), gives away what its recording holds, from its first line on (``hub``), and an
attached screen folds the same lines into the same state (``feed``).

On the socket every line is one JSON object. From the daemon: the lines of a session file, as ``watch.session``
documents them, and in between ``Said``. To the daemon: ``Asked``. What is asked for is never an action on the host:
whoever wants to act opens a watch of his own, with his own login.
"""
