"""``residual-audio serve``"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..serve.limits import Limits
from .checks import check_adapter, check_device, check_model, check_template, writable
from .options import takes


@takes(limits=Limits)
def serve(
    targets: Annotated[
        list[str],
        typer.Argument(metavar="RUN|MODEL…", help="Finished runs of `residual-audio extract`, or models; each gets a page."),
    ],
    limits: Limits,
    adapter: Annotated[str | None, typer.Option(help="A directory that `residual-audio adapt` wrote: its gains become sliders.")] = None,
    data: Annotated[str | None, typer.Option(help="A dataset that models are run on first; without it their pages have no clips.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Use at most so many clips of --data.")] = None,
    folder: Annotated[Path, typer.Option(help="Where adapters, labels and runs of models go; nothing is written elsewhere.")] = Path(
        "live"
    ),
    host: Annotated[str, typer.Option(help="Address to listen on; any but loopback needs the token that is printed.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0: any that is free.")] = 8765,
    token: Annotated[bool, typer.Option("--token", help="Ask for a token on loopback too: other users of this machine have none.")] = False,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A further name that browsers may call the server by; several times.")
    ] = None,
    clips: Annotated[int, typer.Option(min=4, help="Clips on the page, which the equaliser runs through the network.")] = 100,
    words: Annotated[int, typer.Option(min=0, help="At most so many words of the dictionary are packed; any text can be typed.")] = 300,
    template: Annotated[
        str | None,
        typer.Option(help="Prompts of the classes: a named set or a text with {}; default: sound-of, or “a photo of a {}” for images."),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, mps, …")] = "cpu",
) -> None:
    """The page of a run with its model behind it: sounds of your own, a true equaliser, any text, labels and training.

    Open the address that is printed. The server listens on this machine only, unless --host says otherwise; then it asks for a token.
    Ctrl-C ends it: saved adapters and labels stay in --folder.

    ```
    residual-audio extract tiny notes --granularity head,moments,direct --out runs/notes
    residual-audio serve runs/notes
    residual-audio serve tiny --data notes --port 0
    ```
    """
    from ..lazy import need

    need("serve", "fastapi", "uvicorn")  # before anything heavy is loaded
    need("report", "plotly")
    for target in targets:
        if not (Path(target) / "run.json").is_file():
            check_model(target)
    check_adapter(adapter)
    check_template(template)
    check_device(device)
    writable(folder)
    from ..serve import serve as run_server
    from .screen import quiet_libraries, say

    quiet_libraries()
    run_server(
        targets, adapter=adapter, data=data, limit=limit, folder=folder, host=host, port=port, token=token, allow_host=allow_host or (),
        clips=clips, words=words, template=template, device=device, limits=limits, tell=say,
    )  # fmt: skip
