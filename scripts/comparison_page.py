"""A page of comparisons: the commands that made them, their tables, and the questions that they answer, from the files of
`residual-audio compare`.

    python scripts/comparison_page.py runs/compare-timbre runs/compare-voice --title "tiny, two tasks" --out docs/results/adaptation-tiny.md

The tables that the page is made of are kept beside it, in `kept/`. A folder of them does for a run in a later call, which makes the page
again without running anything. What the page says before its tables, and from `## Before` on, is written by hand, and stays.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from results_page import relative

from residual_audio.adaptation.forms import FORMS
from residual_audio.evaluation.paired import against_first
from residual_audio.report.figures import draw
from residual_audio.report.tables import to_markdown
from residual_audio.rounding import fixed, percent

LOST = 0.02  # of the accuracy elsewhere: what counts as next to nothing
# Whom a form is asked to be ahead of, or level with.
RIVALS = ("plain+probe", "lora", "finetune")
BUSY = "Methods and parts: [adaptation](../adaptation.md). Seconds were measured on a machine that was busy with other work too."
KEPT = [f"comparison_{name}" for name in ("summary", "paired", "strength", "cells", "elsewhere")]
FIGURES = {"accuracy_vs_parameters": "accuracy against trained numbers", "accuracy_vs_cost": "accuracy against accuracy elsewhere"}


def read(folder: Path, name: str) -> pd.DataFrame:
    path = folder / "tables" / f"comparison_{name}.csv"
    return pd.read_csv(path) if path.exists() else pd.DataFrame()


def record_of(folder: Path, name: str = "comparison") -> dict:
    """What was done, without the writer's own folders."""
    whole = json.loads((folder / f"{name}.json").read_text())
    found = {key: whole[key] for key in ("command", "when", "versions", "model", "dataset", "settings", "note") if key in whole}
    named = [(found, "command"), (found["model"], "name"), (found["dataset"], "name")]
    named += [(found["settings"], key) for key in ("other", "keep_clips")]
    named += [(options, "basis") for options in found["settings"].get("methods", {}).values()]
    for place, key in named:
        if place.get(key):
            place[key] = relative(place[key])
    return found


def keep(folder: Path, page: Path, name: str, tables: list[str]) -> None:
    """What a page is made of, beside it."""
    kept = page.parent / "kept" / folder.name
    if folder.resolve() == kept.resolve():
        return
    shutil.rmtree(kept, ignore_errors=True)
    (kept / "tables").mkdir(parents=True)
    (kept / f"{name}.json").write_text(json.dumps(record_of(folder, name), indent=1) + "\n")
    for path in (folder / "tables" / f"{table}.csv" for table in tables):
        if path.exists():
            shutil.copyfile(path, kept / "tables" / path.name)


def points(row: pd.Series) -> str:
    """A paired difference with its interval over groups."""
    value, low, high = (text if (text := percent(v)).startswith("-") else f"+{text}" for v in (row.difference, row.low, row.high))
    return f"{value} [{low}, {high}]"


def own_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per method: that of the first classifier, or the method's own scores."""
    return rows[rows.method == rows.adaptation] if "adaptation" in rows else rows


def summary(folder: Path) -> pd.DataFrame:
    """Methods with what they train, reach and cost."""
    everything, paired = read(folder, "summary"), against_first(read(folder, "paired"))
    rows = own_rows(everything)
    if "plain+probe" in set(everything.method):
        rows = pd.concat([rows.iloc[:1], everything[everything.method == "plain+probe"], rows.iloc[1:]])
    first = rows.method.iloc[0]
    shown = pd.DataFrame(
        {
            "method": rows.method,
            "trained": [f"{n:,}" for n in rows.trained],
            "top-1 % [95 % over groups]": [f"{percent(r.accuracy)} [{percent(r.low)}, {percent(r.high)}]" for r in rows.itertuples()],
            f"points over {first} [95 %]": ["" if m not in paired.index else points(paired.loc[m]) for m in rows.method],
            "corrected p, Holm": ["" if m not in paired.index else fixed(paired.p_holm[m], 3) for m in rows.method],
            "std over folds": [percent(r.std) for r in rows.itertuples()],
            "s / fold": [f"{v:.0f}" for v in rows.seconds],
        }
    )
    if "other" in rows:
        shown["elsewhere %"] = [percent(v) if v == v else "–" for v in rows.other]
    return shown


def difference(paired: pd.DataFrame, one: str, other: str) -> pd.Series | None:
    """One row minus another, whichever way round the table holds them."""
    for a, b, sign in ((one, other, 1), (other, one, -1)):
        found = paired[(paired.method == a) & (paired.against == b)]
        if len(found):
            row = found.iloc[0].copy()
            if sign < 0:
                row["difference"], row["low"], row["high"] = -row.difference, -row.high, -row.low
            return row
    return None


def verdict(row: pd.Series) -> str:
    if row.low > 0:
        return "ahead"
    if row.high < 0:
        return "behind"
    return "level: the interval holds zero" if row.high >= 0 else "unknown: one group tells no interval"


def against_rivals(folder: Path) -> pd.DataFrame:
    """Every form against the probe on the plain model, LoRA and full fine-tuning, paired."""
    paired, rows = read(folder, "paired"), read(folder, "summary").set_index("method")
    found = []
    for form in [name for name in rows.index if name in FORMS]:
        for rival in [name for name in RIVALS if name in rows.index]:
            row = difference(paired, form, rival)
            assert row is not None
            numbers = f"{rows.trained[form]:,} against {rows.trained[rival]:,}"
            found.append({"form": form, "rival": rival, "numbers": numbers, "points [95 %]": points(row), "so": verdict(row)})
    return pd.DataFrame(found)


def classifiers(folder: Path) -> tuple[pd.DataFrame, str]:
    """Accuracy by method and classifier, and whether adapting pays under the best classifier of each (best by these same figures)."""
    rows = read(folder, "summary")
    several = rows[rows.groupby("adaptation").classifier.transform("nunique") > 1]
    if not len(several):
        return pd.DataFrame(), ""
    table = several.pivot(index="adaptation", columns="classifier", values="accuracy")
    table = table.loc[several.adaptation.unique(), several.classifier.unique()]
    shown = table.map(percent).reset_index().rename(columns={"adaptation": "method"})
    best = {name: several[several.adaptation == name].nlargest(1, "accuracy").iloc[0] for name in table.index}
    said = []
    for name in [name for name in table.index if name in FORMS and "plain" in best]:
        row = difference(read(folder, "paired"), best[name].method, best["plain"].method)
        assert row is not None
        said.append(
            f"- `{best[name].method}`, the best on `{name}`, against `{best['plain'].method}`, the best on the model as it is: "
            f"{points(row)} points: {verdict(row)}."
        )
    return shown, "\n".join(said)


def plane(folder: Path) -> tuple[pd.DataFrame, str]:
    """Accuracy on the task and elsewhere at every strength, and who is above and to the right of the forms."""
    table = read(folder, "strength")
    if "other" not in table:
        return pd.DataFrame(), ""
    learned = own_rows(read(folder, "summary"))
    table = table[table.method.isin(learned.method[learned.trained > 0])]
    cells = {
        name: [f"{percent(r.accuracy)} / {percent(r.other)}" for r in own.sort_values("tau").itertuples()]
        for name, own in table.groupby("method", sort=False)
    }
    strengths = sorted(table.tau.unique())
    shown = pd.DataFrame(cells, index=[f"τ = {tau:g}" for tau in strengths]).T.reset_index(names="task % / elsewhere %")
    said = []
    for form in [name for name in cells if name in FORMS]:
        best = table[table.method == form].nlargest(1, "accuracy").iloc[0]
        rest = table[~table.method.isin(FORMS)]
        over = rest[(rest.accuracy >= best.accuracy) & (rest.other >= best.other)]
        who = ", ".join(f"`{name}`" for name in over.method.unique()) or "nobody but perhaps other forms"
        said.append(
            f"- At least as good at both as `{form}` at τ = {best.tau:g} ({percent(best.accuracy)} / {percent(best.other)}): {who}."
        )
        said += [line for rival in over.method[over.tau == best.tau] if (line := on_the_plane(folder, form, rival)) and best.tau == 1]
    return shown, "\n".join([*said, *cheap(table, learned)])


def on_the_plane(folder: Path, form: str, rival: str) -> str:
    """Whether a rival whose point is not below a form's is beyond chance on either axis, at full strength."""
    elsewhere = read(folder, "elsewhere")
    task, cost = difference(read(folder, "paired"), rival, form), difference(elsewhere, rival, form) if len(elsewhere) else None
    if task is None or cost is None:
        return ""
    stands = [verdict(row).partition(":")[0] for row in (task, cost)]
    so = "it dominates" if "ahead" in stands else "it dominates by its points, and neither difference is beyond chance"
    return f"- `{rival}` against `{form}`, paired: {points(task)} on the task ({stands[0]}), {points(cost)} elsewhere ({stands[1]}): {so}."


def cheap(table: pd.DataFrame, learned: pd.DataFrame) -> list[str]:
    """What every method has where it loses next to nothing elsewhere, of the strengths that were measured."""
    if "plain" not in set(learned.method):
        return []
    plain, said = learned[learned.method == "plain"].iloc[0], []
    for name, own in table.groupby("method", sort=False):
        cheap, whole = own[own.other >= plain.other - LOST], own[own.tau == 1]
        if not len(cheap):
            said.append(f"- `{name}` loses more than {100 * LOST:.0f} points elsewhere at every strength measured.")
            continue
        best = cheap.nlargest(1, "accuracy").iloc[0]
        gain = [
            f", {100 * (best.accuracy - plain.accuracy) / (v - plain.accuracy):.0f} % of its gain"
            for v in whole.accuracy
            if v > plain.accuracy
        ]
        where = f"- `{name}`, where at most {100 * LOST:.0f} points are lost elsewhere: {percent(best.accuracy)} % at τ = {best.tau:g}"
        said.append(f"{where} ({percent(plain.other - best.other)} lost){''.join(gain)}.")
    return said


def chosen(folder: Path) -> str:
    """What the stopping parts chose, fold by fold."""
    cells = read(folder, "cells")
    if "chosen" not in cells:
        return ""
    own = cells[(cells.method == cells.adaptation) & cells.chosen.fillna("").ne("")]
    return "\n".join(f"- `{name}`: {'; '.join(rows.chosen)}" for name, rows in own.groupby("method", sort=False))


def selection(settings: dict) -> str:
    """The units that the compared methods adapt, and how MLPs are changed where that was given."""
    methods = settings["methods"].values()
    found = [options["units"] for options in methods if "units" in options]
    wide = [f"{options['wide_form']} on MLPs" for options in methods if options.get("wide_form")]
    return ", ".join(dict.fromkeys([*found, *wide])) or "no units"


def part(folder: Path, page: Path) -> str:
    """One comparison: its command, its tables and its figures."""
    record = record_of(folder)
    settings, data = record["settings"], record["dataset"]
    cells = read(folder, "cells")
    other = f"; elsewhere: {settings['other']}" if settings.get("other") else ""
    text = f"\n## {data['name']}, {selection(settings)}\n\n```\n{record['command']}\n```\n\n"
    text += f"{data['clips']} clips, {data['classes']} classes, {cells.fold.nunique()} folds ({data['folds']}){other}. "
    text += f"All cells together took {own_rows(cells).seconds.sum() / 60:.0f} minutes.\n\n"
    text += to_markdown(summary(folder)) + "\n"
    if len(rivals := against_rivals(folder)):
        text += f"\n**Forms against what a user could take instead**, paired over the same test clips:\n\n{to_markdown(rivals)}\n"
    for title, (table, said) in (
        ("Any classifier on any encoder**, top-1 %:", classifiers(folder)),
        ("Accuracy on the task against accuracy elsewhere**, at parts τ of what was learned:", plane(folder)),
    ):
        if len(table):
            text += f"\n**{title}\n\n{to_markdown(table)}\n\n{said}\n"
    if taken := chosen(folder):
        text += f"\n<details><summary>What the stopping parts chose, fold by fold</summary>\n\n{taken}\n\n</details>\n"
    figures = drawn(trained_alone(folder), page, folder.name, record, list(FIGURES))
    return text + "".join(f"\n![{FIGURES[name]}]({file})\n" for name, file in figures)


def drawn(
    tables: dict[str, pd.DataFrame], page: Path, folder: str, record: dict, only: list[str] | None = None
) -> Iterator[tuple[str, str]]:
    """Figures beside the page, under names that say whose they are: what each is of, and its file."""
    caption = {"model": record["model"]["name"], "dataset": record["dataset"]["name"], "clips": record["dataset"]["clips"]}
    with tempfile.TemporaryDirectory() as place:
        for path in draw(tables, Path(place), caption, only=only):
            if path.suffix == ".png":
                name = f"{page.stem}-{folder}-{path.stem.rpartition('_')[2]}.png"
                shutil.copyfile(path, page.parent / name)
                yield path.stem, name


def among_axes(options: dict) -> str:
    """How a row of several comparisons says what was changed, and on which axes."""
    said = (("kept", "{} axes"), ("retain", "{} axes, the others dropped"), ("wide_form", "{} on MLPs"))
    return "".join(f", {words.format(options[name])}" for name, words in said if options.get(name) is not None)


def together(folders: list[Path], page: Path) -> str:
    """Accuracy against trained numbers over several comparisons of the same model, clips and folds, each method by its first classifier."""
    records = [record_of(folder) for folder in folders]
    for folder, record in zip(folders, records, strict=True):
        if (record["model"], record["dataset"]) != (records[0]["model"], records[0]["dataset"]):
            raise SystemExit(f"{folder}: another model or other clips than in {folders[0]}; their rows do not belong in one table")
    rows = []
    for folder, record in zip(folders, records, strict=True):
        own = read(folder, "summary")
        own = own[(own.method == own.adaptation) | (own.method == "plain+probe")]
        named = [name + among_axes(record["settings"]["methods"].get(name, {})) for name in own.method]
        rows.append(own.assign(method=named, adaptation=named))
    every = pd.concat(rows)
    table = every.drop_duplicates(["method", "trained", "accuracy"]).sort_values("trained", kind="stable").reset_index(drop=True)
    if len(unclear := table[table.method.duplicated()]):
        raise SystemExit(f"{', '.join(unclear.method)}: several runs have such a row, with other figures; leave one of them out")
    shown = pd.DataFrame(
        {
            "method": table.method,
            "trained": [f"{n:,}" for n in table.trained],
            "top-1 % [95 % over groups]": [f"{percent(r.accuracy)} [{percent(r.low)}, {percent(r.high)}]" for r in table.itertuples()],
        }
    )
    [(_, figure)] = drawn({"comparison_summary": table}, page, "together", records[0], ["accuracy_vs_parameters"])
    commands = "\n".join(record["command"] for record in records)
    names = ", ".join(f"`{folder.name}`" for folder in folders)
    text = f"\n## Accuracy against trained numbers\n\nThe rows of {names} together:\n\n```\n{commands}\n```\n\n{to_markdown(shown)}\n"
    return text + f"\n![{FIGURES['accuracy_vs_parameters']}]({figure})\n"


def few_shots(folder: Path, page: Path) -> str:
    """Accuracy by clips per class: the command of `few-shot`, its table and its figure."""
    record, table = (
        record_of(folder, "few_shot"),
        pd.read_csv(folder / "tables" / "few_shot.csv", dtype={"shots": str}),
    )
    cells = table.assign(shown=[f"{percent(r.accuracy)} [{percent(r.low)}, {percent(r.high)}]" for r in table.itertuples()])
    shown = cells.pivot(index="method", columns="shots", values="shown").loc[table.method.unique(), table.shots.unique()]
    shown = shown.reset_index(names="top-1 % [95 % over groups]")
    [(_, figure)] = drawn({"few_shot": table}, page, folder.name, record)
    text = f"\n## Clips per class\n\n```\n{record['command']}\n```\n\n{record['note']}.\n\n{to_markdown(shown)}\n"
    return text + f"\n![accuracy against clips per class]({figure})\n"


def trained_alone(folder: Path) -> dict[str, pd.DataFrame]:
    """What the figures show: what is learned, each method by the first classifier; all rows at once are too many to tell apart."""
    rows, strength = own_rows(read(folder, "summary")), read(folder, "strength")
    rows = rows[(rows.trained > 0) | (rows.method == "plain")]
    tables = {"comparison_summary": rows.reset_index(drop=True)}
    if len(strength):
        tables["comparison_strength"] = strength[strength.method.isin(rows.method)].reset_index(drop=True)
    return tables


def words_of(page: Path) -> tuple[str, str]:
    """What an earlier page says between its head and its first comparison, and from `## Before` on: results that are not made again."""
    text = page.read_text() if page.exists() else ""
    _, before, last = text.partition("\n## Before")
    return text.partition(f"\n{BUSY}\n")[2].partition("\n## ")[0].strip(), f"{before}{last}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("comparisons", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--title", required=True)
    parser.add_argument(
        "--together", type=Path, nargs="+", help="Comparisons whose rows are put into one table and figure by trained numbers."
    )
    parser.add_argument("--few-shot", type=Path, help="A curve of `residual-audio few-shot`.")
    parser.add_argument("--machine", default="2 cores of an AMD EPYC (AVX-512, bf16), CPU only")
    args = parser.parse_args()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    text = f"# {args.title}\n\nMade on {args.machine} by the commands below, and written here by `python scripts/comparison_page.py`.\n"
    text += f"{BUSY}\n"
    said, before = words_of(args.out)
    text += f"\n{said}\n" if said else ""
    text += "".join(part(folder, args.out) for folder in args.comparisons)
    for folder in dict.fromkeys([*args.comparisons, *(args.together or [])]):
        keep(folder, args.out, "comparison", KEPT)
    if args.few_shot:
        keep(args.few_shot, args.out, "few_shot", ["few_shot"])
    text += together(args.together, args.out) if args.together else ""
    text += few_shots(args.few_shot, args.out) if args.few_shot else ""
    args.out.write_text(text + before)


if __name__ == "__main__":
    main()
