"""Fleets: several workloads over several GPU types, with a true bound on the cost."""
