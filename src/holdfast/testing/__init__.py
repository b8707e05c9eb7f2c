"""What implementations of our interfaces can be put to: the rules as checks, which ours pass too."""
