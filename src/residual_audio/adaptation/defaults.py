"""What is done where nothing is asked for, in one place."""

UNITS = "last heads mlps"
FORM = "mixing"
RATE = 0.2
DECAY = 1e-6
EPOCHS = 40
PATIENCE = 6
BATCH = 64
# From so many clips per class on, `adapt` changes the last two stages instead of the last two blocks, where there are stages.
MANY = 50
# Below so many clips per class, none is left to say when to stop, and gains are learned instead of the form: fewer numbers than a matrix.
FEW = 2
