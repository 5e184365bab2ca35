"""``residual-audio explain``"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..models.loading import Loading
from ..options import OptionError
from .checks import check_adapter, check_model, check_template, check_words, writable
from .options import ClipsOption, Data, DictionaryOption, Machine, ModelArgument, open_model, takes

if TYPE_CHECKING:
    import pandas as pd

    from ..meaning import Explanation

UNITS = 3
SYNTHETIC = "synthetic:"


@takes(data=Data, machine=Machine, loading=Loading)
def explain(
    model: ModelArgument,
    sounds: Annotated[list[str], typer.Argument(metavar="CLIP...", help="Sound files, or synthetic:TASK/CLASS/TAKE.")],
    data: Data,
    machine: Machine,
    loading: Loading,
    text: Annotated[
        list[str] | None, typer.Option(help="What to explain; may be given several times. Default: the first concept of the code.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for tables/ and sounds/ (one folder per clip where there are several).")] = None,
    adapter: Annotated[
        str | None, typer.Option(help="Fold this adapter in first: a directory that `adapt` or `steer` wrote, or a hub repository.")
    ] = None,
    clips: ClipsOption = None,
    dictionary: DictionaryOption = None,
    words: Annotated[int, typer.Option(min=1, help="Concepts in the code, at most.")] = 8,
    keep: Annotated[float, typer.Option(min=0.01, max=0.99, help="The share of the spectrogram's cells that a mask keeps.")] = 0.2,
    template: Annotated[str, typer.Option(help="A set of prompts, or your own text with {}, around the concepts.")] = "plain",
    curves: Annotated[bool, typer.Option("--curves/--no-curves", help="Deletion and insertion: does the mask show what counts?")] = True,
    draws: Annotated[int, typer.Option(min=1, help="How often random masks are drawn.")] = 3,
    seed: Annotated[int, typer.Option(help="Seed of the random masks.")] = 0,
) -> None:
    """Why a sound sounds like that to a model: a few concepts that add up to it, which units say so, and where in the sound.

    The code's weights split exactly over heads and MLPs. A text's map over time and frequency becomes a mask on the spectrogram: with
    --out, `sounds/` has what the mask keeps, what it removes (together they are the sound), and what speaks against the text.

    ```
    residual-audio explain tiny synthetic:source/8/20000002 --text bell --out why/bell
    residual-audio explain tiny dog.wav cat.wav --text "a dog barking" --data notes
    residual-audio explain tiny dog.wav --text "a dog barking" --adapter adapters/notes
    ```
    """
    check_model(model)
    check_adapter(adapter)
    check_words(dictionary)
    check_template(template)
    writable(out)
    if missing := [s for s in sounds if not s.startswith(SYNTHETIC) and not Path(s).expanduser().is_file()]:
        raise OptionError(f"{missing[0]}: there is no such file; name a sound, or synthetic:TASK/CLASS/TAKE")
    given = data.open(clips) if clips is not None else None
    from ..meaning import explain as run_explanation
    from ..meaning import listen
    from ..progress import progress
    from .screen import say, unreadable

    encoder = open_model(model, machine, loading)
    chosen = data.clips(None, encoder) if given is None else given
    if adapter is not None:
        from ..meaning.explain import with_adapter

        encoder, dictionary = with_adapter(encoder, adapter, dictionary)
    heard = listen(encoder, chosen, seed=seed, workers=machine.workers)
    unreadable(heard.errors, chosen)
    found: dict[str, Explanation] = {}
    with progress(f"{encoder.name} explains", len(sounds)) as told:
        for number, sound in enumerate(dict.fromkeys(sounds)):
            path = sound if sound.startswith(SYNTHETIC) else str(Path(sound).expanduser())
            made = run_explanation(
                encoder, path, text or (), dictionary=dictionary, words=words, keep=keep, template=template, curves=curves,
                draws=draws, seed=seed, listening=heard,
            )  # fmt: skip
            made = replace(made, info={**made.info, "adapter": adapter})
            found[sound] = made
            if out is not None:
                made.write(out if len(sounds) == 1 else out / folder_name(sound, number))
            told(1)
    for sound, made in found.items():
        show(sound, made)
    if curves and len(found) > 1:
        from ..meaning.faithfulness import over_clips
        from ..results import write_table

        table = over_clips({s: e.tables["explain_faithfulness"] for s, e in found.items()}, seed=seed)
        if out is not None:
            write_table(table, out / "tables", "explain_faithfulness")
        show_faithfulness(table, f"over {len(found)} clips")
    if out is not None:
        say(f"tables and sounds: {out}")


def folder_name(sound: str, number: int) -> str:
    """One per clip, also where files of different folders share a name."""
    from ..meaning.explain import file_name

    return file_name(Path(sound).stem if not sound.startswith(SYNTHETIC) else sound, number)


def show(sound: str, made: Explanation) -> None:
    from ..spelling import printable
    from .screen import console, screen_table

    code, units = made.tables["explain_code"], made.tables["explain_units"]
    title = f"{printable(Path(sound).name)}: {100 * made.code.explained:.0f} % explained by {len(made.code.support)} concepts"
    table = screen_table("concept", "weight", "score", "units that say so (their part of the score)", title=title)
    for _, r in code.iterrows():
        own = units[(units.concept == r.concept) & ~units.kind.isin(["constant", "penalty"])].nlargest(UNITS, "score")
        said = ", ".join(f"{u.label} {u.score:+.2f}" for u in own.itertuples())
        table.add_row(f"{printable(r.concept)}{' *' if r.asked else ''}", f"{r.weight:.2f}", f"{r.score:+.2f}", said)
    console.print(table)
    if "explain_faithfulness" in made.tables:
        for text, one in made.tables["explain_faithfulness"].groupby("text", sort=False):
            show_faithfulness(one, f"“{printable(str(text))}”")


def show_faithfulness(table: pd.DataFrame, of: str) -> None:
    from .screen import console, screen_table

    interval = "low" in table
    columns = ["cells by", "deletion", "insertion", "difference", *(["95 %"] if interval else [])]
    shown = screen_table(*columns, title=f"areas under the score's curves, {of}", caption="a faithful mask: low deletion, high insertion")
    for _, r in table.iterrows():
        ends = [f"{r.low:+.3f} to {r.high:+.3f}"] if interval else []
        shown.add_row(r.order, f"{r.deletion:.3f}", f"{r.insertion:.3f}", f"{r.difference:+.3f}", *ends)
    console.print(shown)
