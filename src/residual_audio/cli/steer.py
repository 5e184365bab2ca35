"""``residual-audio steer``"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..models.loading import Loading
from ..options import OptionError
from .checks import check_model, check_template, check_words, writable
from .options import ClipsOption, Data, DictionaryOption, Machine, ModelArgument, open_model, takes

if TYPE_CHECKING:
    from ..meaning import Steered

SHOWN = 3


@takes(data=Data, machine=Machine, loading=Loading)
def steer(
    model: ModelArgument,
    data: Data,
    machine: Machine,
    loading: Loading,
    more: Annotated[list[str] | None, typer.Option(help='What to hear more of, such as "rain"; may be given several times.')] = None,
    less: Annotated[list[str] | None, typer.Option(help='What to hear less of, such as "speech"; may be given several times.')] = None,
    strength: Annotated[float, typer.Option(min=0.0, max=4.0, help="α: gains are 1 + α and 1 − α; 0 changes nothing.")] = 1.0,
    out: Annotated[Path | None, typer.Option(help="Directory of the adapter; `fold` and every --adapter take it.")] = None,
    clips: ClipsOption = None,
    by: Annotated[
        str, typer.Option(help="What ranks units: shares (of the text's scores) or somp (what the text explains of the unit).")
    ] = "shares",
    units: Annotated[str, typer.Option(help='The units to choose from: heads, mlps; with stages or blocks: "S3 heads".')] = "heads mlps",
    top: Annotated[int, typer.Option(min=1, help="Units chosen for each text.")] = 24,
    dictionary: DictionaryOption = None,
    template: Annotated[str, typer.Option(help="A set of prompts, or your own text with {}, around the texts.")] = "plain",
    controls: Annotated[int, typer.Option(min=0, help="How often each random control is drawn; 0: none.")] = 19,
    replace: Annotated[bool, typer.Option("--replace", help="Replace an adapter that is there already.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the controls and intervals.")] = 0,
) -> None:
    """Make a model hear more of one thing and less of another, by words alone. Nothing is trained.

    In the units that carry a text most, the axis along which they write it gets another gain. Half of the clips choose, the other
    half measure: the gain that each text got (the slope of its scores after on those before), all other concepts of the dictionary,
    and the same with random axes and with other units.

    ```
    residual-audio steer tiny --more rain --less bell --out adapters/rainy
    residual-audio fold tiny adapters/rainy --out folded/rainy
    ```
    """
    if not more and not less:
        raise OptionError('nothing to steer; name what to hear with --more "rain" or --less "speech"')
    if by not in ("shares", "somp"):
        raise OptionError(f"--by {by}: one of shares, somp")
    if replace and out is None:
        raise OptionError("--replace is for an adapter that --out names")
    check_model(model)
    check_words(dictionary)
    check_template(template)
    writable(out)
    given = data.open(clips) if clips is not None else None
    from ..adaptation.adapter import check_free
    from ..meaning import listen
    from ..meaning import steer as run_steering
    from .screen import say, unreadable

    if out is not None:
        check_free(out, replace)
    encoder = open_model(model, machine, loading)
    chosen = data.clips(None, encoder) if given is None else given
    heard = listen(encoder, chosen, seed=seed, workers=machine.workers)
    steered = run_steering(
        encoder, more or (), less or (), strength=strength, dictionary=dictionary, by=by, units=units, top=top, template=template,
        controls=controls, seed=seed, listening=heard,
    )  # fmt: skip
    if out is not None:
        steered.write(out, replace)
    unreadable(steered.errors, chosen, out and out / f"{steered.record}.json")
    show(steered)
    if out is not None:
        say(f"{steered.adapter.trained:,} gains in {out}; nothing was trained")


def show(steered: Steered) -> None:
    from ..spelling import printable
    from .screen import console, p_text, say, screen_table

    info, concepts, summary = steered.info, steered.tables["steer_concepts"], steered.tables["steer_summary"]
    title = f"{info['model']['name']} at strength {info['strength']:g}, gains on {info['clips_measured']} clips [95 %]"
    table = screen_table("concept", "gain", "95 %", "cosine with a target", title=title, caption="1.00: unchanged")
    others = concepts[concepts.side == "other"]
    for part in (concepts[concepts.side != "other"], others.head(SHOWN), others.tail(SHOWN)):
        for _, r in part.iterrows():
            name = f"{printable(r.concept)}{'' if r.side == 'other' else f' ({r.side})'}"
            table.add_row(name, f"{r.gain:.2f}", f"{r.low:.2f}–{r.high:.2f}", f"{r.cosine:+.2f}")
        table.add_section()
    console.print(table)
    against = screen_table("model", "targets", "others", "difference", "95 %", "p", title="change of the gain, in the wanted sense")
    for _, r in summary.iterrows():
        name = r.model if r.draws == 1 else f"{r.model}, {r.draws} draws"
        cells = [f"{r.target:+.3f}", f"{r.others:.3f}", f"{r.difference:+.3f}", f"{r.low:+.3f} to {r.high:+.3f}", p_text(r.p)]
        against.add_row(name, *cells)
    console.print(against)
    units = steered.tables["steer_units"]
    for text, chosen in units[units.chosen].groupby("text", sort=False):
        say(f"{printable(str(text))}: {', '.join(chosen.label.head(8))}{', …' if len(chosen) > 8 else ''}")
