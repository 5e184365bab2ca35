"""Published tables, measured again."""
