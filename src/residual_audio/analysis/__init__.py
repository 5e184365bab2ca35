"""From stored arrays to measures: dimension, statistics, specialisation, discriminability, ablation. Never a model."""
