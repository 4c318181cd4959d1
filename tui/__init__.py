"""Shows and obeys: command line, Textual app, screens, widgets, key bindings."""
