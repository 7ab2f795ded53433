"""A plan, ready to show: what is shown is decided once, then formatted for each reader."""
