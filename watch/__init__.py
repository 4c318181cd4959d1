"""Understands: folds readings into the state of a load. No Textual, no sockets, no clock."""
