"""One file of a model for engines that only infer: traced, recorded, quantised where asked, and checked against the model itself."""
