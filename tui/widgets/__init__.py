"""One widget a file. They draw what a ``View`` says and decide nothing."""
