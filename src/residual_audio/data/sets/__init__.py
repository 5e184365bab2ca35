"""One file per dataset: it reads the dataset and registers itself, and everything else finds it in the registry."""
