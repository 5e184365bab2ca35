"""Figures, tables and the page, from result files."""
