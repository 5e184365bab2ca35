"""What sounds and images have in common."""

from __future__ import annotations


class MediaError(ValueError):
    """A sound or an image that cannot be used; the message names it and says why."""
