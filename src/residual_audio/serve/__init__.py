"""The page with its model behind it: sounds of one's own, a true equaliser, training and labelling from a browser."""

from typing import TYPE_CHECKING

from ..lazy import callable_room, lazily

if TYPE_CHECKING:
    from .server import serve

__all__ = ["serve"]

__getattr__, __dir__ = lazily(__name__, {"serve": ".server"})
callable_room(__name__, "serve")
