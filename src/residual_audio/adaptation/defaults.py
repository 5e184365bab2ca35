"""What is done where nothing is asked for, in one place."""

UNITS = "last heads mlps"
FORM = "mixing"
RATE = 0.1
DECAY = 1e-6
EPOCHS = 40
PATIENCE = 6
BATCH = 64
# Below so many clips per class, gains are learned instead of the form: fewer numbers than a matrix.
FEW = 8
