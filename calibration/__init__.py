"""Fits the latency model's constants to the shipped measurements; development only (scipy)."""
