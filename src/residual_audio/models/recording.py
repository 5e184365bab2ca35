"""The one context manager through which everything looks into a running encoder, or reaches into it.

Hooks exist only inside the ``with``; they are gone afterwards, also after an exception; a site that was watched
and never fired is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from . import BlockSite, Encoder

Reach = Callable[[BlockSite, Tensor], Tensor | None]
Look = Callable[[Tensor], object]


class RecordError(RuntimeError):
    """A site that was watched did not fire."""


@contextmanager
def record(
    encoder: Encoder,
    *,
    heads: Reach | None = None,
    write: Reach | None = None,
    mlp: Reach | None = None,
    entry: Reach | None = None,
    inputs: dict[str, Look] | None = None,
    sites: tuple[BlockSite, ...] | None = None,
    silent_ok: bool = False,
) -> Iterator[None]:
    """Watch an encoder's blocks (all, or ``sites``) while it runs.

    - ``heads(site, z)`` sees the concatenated head outputs ``[window, token, head · d_head]`` before the projection;
    - ``write(site, a)`` sees what the attention writes, after it; ``mlp(site, m)`` what the MLP writes;
    - ``entry(site, x)`` sees the stream that enters the block;
    - what any of these returns, unless None, takes the place of what it saw;
    - ``inputs[name](x)`` sees the input of any other sub-module.

    ``silent_ok``: a site need not fire (an adapted model that is attached but not run is no mistake).
    """
    fired: set[tuple[str, str]] = set()
    handles: list[RemovableHandle] = []

    def before(name: str, act: Callable[[Tensor], Tensor | None]) -> None:
        def hook(module: nn.Module, args: tuple) -> tuple | None:
            fired.add((name, "before"))
            changed = act(args[0])
            return None if changed is None else (changed, *args[1:])

        handles.append(encoder.module.get_submodule(name).register_forward_pre_hook(hook))

    def after(name: str, act: Callable[[Tensor], Tensor | None]) -> None:
        def hook(module: nn.Module, args: tuple, output: Tensor) -> Tensor | None:
            fired.add((name, "after"))
            return act(output)

        handles.append(encoder.module.get_submodule(name).register_forward_hook(hook))

    def watch(name: str, look: Look) -> None:
        def seen(x: Tensor) -> None:
            look(x)

        before(name, seen)

    watched: set[tuple[str, str]] = set()
    try:
        for site in encoder.sites if sites is None else sites:
            reaches = (
                (heads, site.projection, before),
                (write, site.projection, after),
                (mlp, site.mlp, after),
                (entry, site.entry, before),
            )
            for reach, name, attach in reaches:
                if reach is not None:
                    attach(name, lambda x, reach=reach, site=site: reach(site, x))
                    watched.add((name, attach.__name__))
        for name, look in (inputs or {}).items():
            watch(name, look)
            watched.add((name, "before"))
        yield
        silent = sorted(watched - fired)
        if silent and not silent_ok:
            raise RecordError(
                f"{len(silent)} of {len(watched)} watched sites never fired, the first is {silent[0][0]}; "
                "did the encoder run inside the `with`?"
            )
    finally:
        for handle in handles:
            handle.remove()
