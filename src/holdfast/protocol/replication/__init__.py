"""Replication on demand: a broker that fails or is overloaded gets a replica, built from its neighbours' tables.

Nothing is kept, sent or computed for it while all is well, apart from the names of the neighbours' neighbours. The
tables themselves travel as they always do between brokers; what is added is who stands for whom (`stand`), when the
replica has everything (`replica`), what becomes of events meanwhile (`out_queue`, `cache`), and how two streams become
one again (`reordering`). `broker` puts these into a broker. Paper 003, with the corrections that
docs/replication.md lists.
"""
