"""The demo: a live network as it is watched, and what is said of it when it is over."""
