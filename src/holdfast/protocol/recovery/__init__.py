"""End-to-end recovery: clients detect by themselves what the network has lost, and get it from its publisher.

Only publish and subscribe are used; brokers know nothing of it. `recovery` is the contract between a client and its
recovery, and `end_to_end` the machine that keeps it. One file is one idea: `publisher` announces what was published
and retransmits it, `subscriber` detects what is missing and requests it, `publisher_state` is what it remembers of one
publisher, `control` the control messages, `cache` what is kept for others, `rtt` how long things take. `srm` is another
machine with the same contract: recovery as paper 000 has it, for comparison.
"""
