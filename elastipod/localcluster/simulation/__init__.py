"""The whole system from a seed: virtual time, faults at the seam, invariants after every step."""
