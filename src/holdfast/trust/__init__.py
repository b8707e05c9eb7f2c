"""Trust: who somebody is, what they may publish and see, and what their input may cost."""
