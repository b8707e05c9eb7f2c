"""The simulator: the real protocol code over modelled links and brokers, with time as an integer."""
