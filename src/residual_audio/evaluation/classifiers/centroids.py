"""Centroids: the cosine with the mean of each class's clips, all centred by their common mean.

The prototypes of prototypical networks (Snell et al. 2017) are the same means; about the common mean, they tell classes apart where all
embeddings point the same way.
"""

from __future__ import annotations

import torch.nn.functional as F

from ..classifier import CLASSIFIERS, Classifier
from ..directions import centroid_directions
from ..examples import Examples
from ..scorers import Linear


def make(examples: Examples) -> Linear:
    centre = examples.embeddings.mean(0)
    about = F.normalize(examples.embeddings - centre, dim=-1)
    directions = centroid_directions(about, examples.targets, examples.classes)
    return Linear(directions, directions.new_zeros(examples.classes), centre)


CLASSIFIERS.add(Classifier("centroids", "cosine with the mean of each class's clips in the other folds", make, order=20))
