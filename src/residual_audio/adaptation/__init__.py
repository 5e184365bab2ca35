"""Retuning: gains on principal axes, attached to a running model, learned, saved, and folded into its weights."""
