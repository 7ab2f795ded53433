"""From a case to a proved and verified design."""
