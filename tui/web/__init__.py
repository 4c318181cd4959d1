"""The screen in a browser, to look at: textual-serve behind a token. Needs the extra ``web``."""
