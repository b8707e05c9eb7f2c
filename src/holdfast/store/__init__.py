"""Where a broker's events and tables survive its crash: in memory for the simulator, in SQLite for live brokers."""
