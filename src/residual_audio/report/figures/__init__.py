"""Publication figures, one a file, drawn from result tables."""
