"""End-to-end recovery as paper 000 has it: receivers repair each other's losses, with the timers of SRM.

Every publication tells of the few before it. Who finds one missing waits a random while, longer the farther it is from
the publisher, and then asks all who may hold it: the request is routed by the content that the record listed. A holder
waits a random while too, and publishes the lost event again. Who hears another's request or repair keeps quiet.

`SrmRecovery` has the interface of `Recovery`, so a client takes either. One file is one idea: `announcer` is the
publisher, `requester` asks, `repairer` answers, `event_cache` holds what each node keeps for others, `window` the
timers and how they adapt, `source` what a node knows of one publisher, `request_filter` which requests reach it,
`messages` what they exchange. The errata of the paper that had to be settled are in the files where they matter.
"""
