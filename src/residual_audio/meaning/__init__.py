"""What each unit hears, in words: dictionaries, three ways to choose from them, and scores that say how far to trust the choice."""

from .ask import Answer, ask
from .describe import METHODS, Description, describe
from .dictionary import DICTIONARIES, Dictionary, MeaningError, load_dictionary
from .explain import Explanation, explain
from .listening import Listening, listen
from .steer import Steered, steer

__all__ = [
    "DICTIONARIES",
    "METHODS",
    "Answer",
    "Description",
    "Dictionary",
    "Explanation",
    "Listening",
    "MeaningError",
    "Steered",
    "ask",
    "describe",
    "explain",
    "listen",
    "load_dictionary",
    "steer",
]
