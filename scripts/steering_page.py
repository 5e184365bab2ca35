"""``docs/results/steering-explanations.md``: steering by words and explanations, against controls.

    python scripts/steering_page.py --data ../shared/data --whisper ../shared/models/whisper-tiny.en-encoder \\
        --runs runs/steering --out docs/results/steering-explanations.md

Each part is kept in ``--runs`` when it is done, so the script can be stopped and run again; ``--part NAME`` makes one part only.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import pandas as pd
from steering_runs import CONTROLS, ESC50, NOTES, PARTS, STEERED, STRENGTHS, Places

from residual_audio.evaluation.significance import mean_interval
from residual_audio.report.tables import to_markdown

MACHINE = "2 cores of an AMD EPYC (AVX-512, bf16)"
TITLES = {
    "explain-tiny": "single synthetic sounds",
    "explain-mixed": "two synthetic sounds at once, one of them asked for",
    "explain-notes": "notes of real instruments (NSynth)",
    "explain-human": "human sounds (Deeply Nonverbal Vocalization)",
    "explain-whisper": "Whisper tiny.en, ESC-50, centroid of the true class",
}
WAVES = ("original", "kept", "removed", "against", "shifted")


def interval(values: pd.Series) -> str:
    mean, low, high = mean_interval(np.asarray(values, dtype=float))
    return f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]"


def steering_table(rows: list[dict]) -> str:
    """Means over texts of each model, by side; how many texts have a difference whose interval over clips is above 0."""
    lines = []
    for (side, model), some in pd.DataFrame(rows).groupby(["side", "model"], sort=False):
        above = f"{int((some.low > 0).sum())} of {len(some)}" if model == "steered" else "–"
        cells = {"": side, "model": model, "change of the target": interval(some.target), "elsewhere": f"{some.others.mean():.3f}"}
        lines.append({**cells, "difference": interval(some.difference), "texts above 0": above})
    return to_markdown(pd.DataFrame(lines))


def by_text(rows: list[dict]) -> str:
    table, lines = pd.DataFrame(rows), []
    for text, some in table[table.model == "steered"].groupby("text", sort=False):
        line = {"text": text}
        for side, sign in (("more", 1), ("less", -1)):
            row = some[some.side == side].iloc[0]
            line |= {f"{side}: gain": f"{1 + sign * row.target:.2f}", f"{side}: change elsewhere": f"{row.others:.3f}"}
        lines.append(line)
    return to_markdown(pd.DataFrame(lines))


def verdict(rows: list[dict]) -> str:
    """In words: which orders the shares beat, which beat them, and where the interval holds 0."""
    said: dict[str, list[str]] = {"ahead of": [], "behind": [], "not told apart from": []}
    for r in rows:
        if r["order"] != "shares":
            said["ahead of" if r["ahead_low"] > 0 else "behind" if r["ahead_high"] < 0 else "not told apart from"].append(r["order"])
    return "Exact shares are " + "; ".join(f"{how} {', '.join(who)}" for how, who in said.items() if who) + "."


def faithful_part(name: str, rows: list[dict]) -> str:
    lines = []
    for r in rows:
        ahead = "–" if r["order"] == "shares" else f"{r['shares_ahead']:+.3f} [{r['ahead_low']:+.3f}, {r['ahead_high']:+.3f}]"
        line = {"cells by": r["order"], "deletion": f"{r['deletion']:.3f}", "insertion": f"{r['insertion']:.3f}"}
        difference = f"{r['difference']:+.3f} [{r['low']:+.3f}, {r['high']:+.3f}]"
        lines.append({**line, "difference [95 %]": difference, "shares ahead by [95 %]": ahead})
    title = TITLES[name][0].upper() + TITLES[name][1:]
    return f"### {title}\n\n{rows[0]['clips']} clips. {verdict(rows)}\n\n{to_markdown(pd.DataFrame(lines))}"


def scores_table(parts: dict[str, dict]) -> str:
    lines = []
    for name, part in parts.items():
        scores = pd.DataFrame(part["scores"])
        line = {"": TITLES[name], "clips": len(scores), **{k: f"{scores[k].mean():+.3f}" for k in WAVES}}
        lines.append({**line, "kept − shifted [95 %]": interval(scores.kept - scores.shifted)})
    return to_markdown(pd.DataFrame(lines))


def steering_part(tiny: dict, notes: dict) -> str:
    curve = [{"strength": f"{r['strength']:g}", **{k: f"{r[k]:.3f}" for k in ("rain", "bell", "others")}} for r in tiny["curve"]]
    return f"""## Steering

Strength 1: `more` doubles the text-aligned axis of the 24 units that carry a text most, `less` mutes it. Changes are of the gain that a
text got: the slope of its scores after on those before, minus 1, in the wanted sense, on clips that chose nothing. "Elsewhere": the mean
size of the change over all other concepts. Intervals are over texts; each control is drawn {CONTROLS} times per text and averaged. "Texts
above 0": how often the interval of the difference over clips lies above 0.

### `tiny`, synthetic sounds

{tiny["measured"]} clips measured, {tiny["concepts"]} concepts, {len(STEERED)} texts.

{steering_table(tiny["shares"])}
{by_text(tiny["shares"])}
The same with units ranked by SOMP instead of shares:

{steering_table(tiny["somp"])}
More rain and less bell at several strengths (gains; the last column is the mean size of the change of all other concepts):

{to_markdown(pd.DataFrame(curve))}
### `tiny`, notes of real instruments

{notes["measured"]} clips measured; texts: {", ".join(NOTES)}.

{steering_table(notes["shares"])}
{by_text(notes["shares"])}
"""


def whisper_part(whisper: dict | None) -> str:
    """Empty where it was left out."""
    if whisper is None:
        return ""
    return f"""### Whisper tiny.en, ESC-50

No texts: the centroids of {len(ESC50)} classes stand in, so "elsewhere" is {len(ESC50) - 1} other classes.
{whisper["measured"]} clips measured; classes steered: {", ".join(ESC50[:3])}.

{steering_table(whisper["shares"])}
{by_text(whisper["shares"])}"""


def codes_part(codes: dict) -> str:
    low, high = (100 * end for end in codes["explained"][1:])
    part = {k: f"{100 * (codes[k] if k == 'chance' else codes[k][0]):.0f} %" for k in ("explained", "in_code", "nearest", "chance")}
    return f"""### Codes

`tiny` on {codes["clips"]} synthetic clips, a dictionary of {codes["concepts"]} concepts, {codes["words"]:.1f} concepts per code on average.
The code reaches {part["explained"]} [{low:.0f}, {high:.0f}] of the square of the gap-free embedding. A noun of the clip's class is in
{part["in_code"]} of the codes, and among as many nearest concepts of {part["nearest"]} of the clips; as many concepts at random would have
it in {part["chance"]}. `tiny` was trained on these classes and words, so this is the easiest case there is.
"""


def mixed_part(rows: list[dict]) -> str:
    kept = pd.DataFrame(rows)
    mean = {k: f"{100 * kept[k].mean():.0f} %" for k in kept}
    return f"""Of two sounds at equal power, the mask for one keeps {mean["shares_own"]} of that one's energy and {mean["shares_other"]} of
the other's (difference {interval(kept.shares_own - kept.shares_other)}, {len(kept)} mixtures). The loudest cells, as many, keep
{mean["loudness_own"]} and {mean["loudness_other"]} ({interval(kept.loudness_own - kept.loudness_other)}).
"""


def limits(found: dict[str, dict]) -> str:
    """What fails, from the same figures."""
    lines = []
    for name, title in (("tiny", "`tiny`, synthetic sounds"), ("notes", "`tiny`, notes"), ("whisper", "Whisper, ESC-50")):
        if f"steer-{name}" not in found:
            continue
        rows = pd.DataFrame(found[f"steer-{name}"]["shares"])
        rows = rows[rows.model == "steered"]
        unsure = [f"{r.side} {r.text}" for r in rows[rows.low <= 0].itertuples()]
        lines.append(
            f"- {title}: steering is not shown to move its target more than other concepts for {', '.join(unsure)}."
            if unsure
            else f"- {title}: every text moved more than other concepts, with an interval above 0."
        )
    rows = pd.DataFrame(found["steer-tiny"]["shares"])
    more = rows[(rows.model == "steered") & (rows.side == "more")].target.mean()
    weak, strong = (found["steer-tiny"]["curve"][i]["others"] for i in (1, -1))
    somp, shares = pd.DataFrame(found["steer-tiny"]["somp"]).difference.mean(), rows[rows.model == "steered"].difference.mean()
    lines += [
        f"- A strength is not the gain that a text gets: `more` at strength 1 raises a text by {100 * more:.0f} % on average, "
        "not by 100 %. Other units carry the text too, and later norms take some of it back.",
        f"- Stronger is less selective: from strength {STRENGTHS[1]:g} to {STRENGTHS[-1]:g}, "
        f"the change elsewhere grows from {weak:.3f} to {strong:.3f}.",
        f"- Ranked by SOMP, units are worse to steer: the difference is {somp:.3f} on average, against {shares:.3f} by shares. "
        "A unit that varies mostly along a text need not move the text's score.",
        "- Words that mean nearly the same move together: nothing steers rain without rainfall.",
    ]
    for name in [name for name in TITLES if name in found]:
        rows = found[name]["faithfulness"]
        if rivals := [r["order"] for r in rows if r["order"] in ("gradient", "loudness") and r["ahead_low"] <= 0]:
            lines.append(f"- Masks, {TITLES[name]}: not shown to be more faithful than {' and '.join(rivals)}.")
        scores = pd.DataFrame(found[name]["scores"])
        if worse := int((scores.removed > scores.kept).sum()):
            lines.append(f"- Masks, {TITLES[name]}: what is removed scores higher than what is kept in {worse} of {len(scores)} clips.")
    return "\n".join(lines)


def page(found: dict[str, dict]) -> str:
    explained = {name: found[name] for name in TITLES if name in found}
    faithful = "\n".join(faithful_part(name, part["faithfulness"]) for name, part in explained.items())
    return f"""# Steering and explanations, against controls

How these are made: [steering](../steering.md). Everything on this page is written by one script, on {MACHINE}:

```
python scripts/steering_page.py --data ../shared/data --whisper ../shared/models/whisper-tiny.en-encoder --runs runs/steering
```

{steering_part(found["steer-tiny"], found["steer-notes"])}
{whisper_part(found.get("steer-whisper"))}
## Explanations

Deletion and insertion: areas under the score's curve as cells of the model's input are silenced, or put back, in some order. A faithful
order has a large difference. "Shifted" is the order of the shares, moved by a random time and frequency.

{codes_part(found["explain-tiny"]["codes"])}
{faithful}
### The sounds themselves

Mean scores of the written sounds, run through the whole front end again. The mask keeps 20 % of the cells; "shifted" is the same mask
moved at random.

{scores_table(explained)}
{mixed_part(found["explain-mixed"]["kept"])}
## What fails

{limits(found)}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--whisper", type=Path, required=True)
    parser.add_argument("--runs", type=Path, default=Path("runs/steering"))
    parser.add_argument("--out", type=Path, default=Path("docs/results/steering-explanations.md"))
    parser.add_argument("--part", choices=list(PARTS), action="append", help="make these parts, and no page")
    parser.add_argument("--without", choices=("steer-whisper", "explain-whisper"), action="append", default=[], help="leave these out")
    args = parser.parse_args()
    args.runs.mkdir(parents=True, exist_ok=True)
    parts = [name for name in PARTS if name not in args.without]
    for name in args.part or parts:
        kept = args.runs / f"{name}.json"
        if not kept.exists():
            kept.write_text(json.dumps(PARTS[name](Places(args.data, args.whisper)), indent=1))
            print(kept, flush=True)
    if not args.part:
        args.out.write_text(page({name: json.loads((args.runs / f"{name}.json").read_text()) for name in parts}))


if __name__ == "__main__":
    main()
