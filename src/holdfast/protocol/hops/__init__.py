"""What neighbouring brokers do about failures of links and of each other, beyond sending once."""
