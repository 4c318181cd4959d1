"""One module a family of saved files: text logs, journal records, recordings, captured answers of commands."""
