"""The console: a network in a browser, as it runs."""
