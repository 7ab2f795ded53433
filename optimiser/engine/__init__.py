"""What a replica does: memory, forward-pass time and request cost, over many configurations."""
