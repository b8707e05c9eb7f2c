"""The mechanisms, without I/O: facts and the time come in, effects go out. One file is one idea."""
