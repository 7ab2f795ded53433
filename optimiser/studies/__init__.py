"""Many plans: which changes would pay."""
