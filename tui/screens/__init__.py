"""Whole screens: the watch, help, one line, one finding."""
