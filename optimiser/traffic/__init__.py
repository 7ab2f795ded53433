"""Request logs as classes of traffic."""
