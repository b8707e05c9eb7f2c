"""End-to-end recovery: clients find out by themselves what the network has lost, and get it from its publisher.

Only publish and subscribe are used; brokers know nothing of it. `Recovery` is the machine of one client: facts go in,
wishes (`says`) come out, and the client fulfils them. One file is one idea: `publisher` tells what there was and sends
it again, `subscriber` finds out what is missing and asks, `asking` is what it remembers of one publisher, `control` the
messages, `cache` what is kept for others, `pace` how long things take. `srm` is another machine with the same
interface: recovery as paper 000 has it, for comparison.
"""
