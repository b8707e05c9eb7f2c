"""How large a network file, and the network it describes, may be. What is past a limit is refused with the limit."""

FILE_BYTES_MAX = 16 * 2**20  # tomllib needs about a second for 2 MB; what is larger belongs into a Parquet file
BROKERS_MAX = 10_000  # one process simulates them; the largest overlay of the papers has 200
LINKS_MAX = 100_000  # ten a broker at the limit above; each is an object with dice in the simulator
CLIENTS_MAX = 1_000_000  # about 1 GB as plain values
PUBLISHERS_MAX = 100_000  # each has its own dice of 2.5 kB while publications are drawn
SUBSCRIPTIONS_MAX = 2_000_000  # about 200 bytes each, and a second for 50,000 that have to be parsed
PAIRS_MAX = 10_000_000  # subscribers times publishers of the workload `rates`: a double each
FAULTS_MAX = 100_000  # written out one by one: ten lines of TOML for each
LISTED_MAX = 100_000  # items of one list in the file, such as the publications of one client
NAME_CHARACTERS_MAX = 64  # names stand in every trace row and in file names
PORT_MAX = 65_535  # 16 bits, in TCP and UDP
DURATION_S_MAX = 1_000_000_000  # 30 years: room for 10,000 failures a component, and microseconds fit in 64 bits
DELAY_S_MAX = 3_600  # of a message on a link or in a broker; longer is an outage, not a delay
RATE_PER_S_MAX = 1_000_000  # of one publisher: one publication in a microsecond, the clock's step
BYTES_MAX = 2**30  # of a payload; the simulator only counts them
SERVERS_MAX = 1_000  # of a simulated broker; more is no queue at all
QUEUE_MAX = 10_000_000  # messages that wait in one place: gigabytes when they are real
ATTRIBUTES_MAX = 1_000  # of one generated event
PROBLEMS_MAX = 1_000  # kept; a file of a million wrong rows must not fill the memory with messages
PROBLEMS_SHOWN_MAX = 50  # a screenful or two; the rest is counted
