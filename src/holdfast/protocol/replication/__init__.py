"""Replication on demand: a broker that fails or is overloaded gets a replica, built from its neighbours' tables.

Nothing is kept, sent or computed for it while all is well, apart from the names of the neighbours' neighbours. The
tables themselves travel as they always do between brokers; what is added is who replaces whom (`takeovers`,
`neighbour_failover`), who relieves whom (`reliefs`, `relief`) and for how long (`overload`, `echoes`, `departure`),
when the replica has everything (`replica`), what becomes of events meanwhile (`out_queue`, `cache`, `sharing`), and how
several streams become one again (`reordering`). `states` has what may follow what, and `layer` puts all of it around a
broker. Paper 003, with the corrections that docs/replication.md lists.
"""
