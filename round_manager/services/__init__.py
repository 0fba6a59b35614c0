"""Use cases: one function each, called by the command line, the web app and the manager alike."""
