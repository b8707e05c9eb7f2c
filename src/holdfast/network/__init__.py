"""The network file: one TOML file says who is connected, how well, who publishes what and what breaks.

`load` reads and checks it and gives a `Network`, plain frozen values that the simulator, the live driver and the
planner share. docs/network-file.md lists every key.
"""
