"""What may be deployed: LLMs, GPUs and price offers, as data files with sources."""
