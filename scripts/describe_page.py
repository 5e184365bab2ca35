"""A page of words: what `describe` found for the heads of runs, as it is in their files, and the commands that made it.

python scripts/describe_page.py runs/synthetic runs/timbre --other runs/synthetic-audioset --map runs/bell --out docs/results/tiny-words.md
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import pandas as pd
from PIL import Image
from scipy.stats import binomtest

from residual_audio.extraction import Run
from residual_audio.meaning import load_dictionary
from residual_audio.report.figures import Context
from residual_audio.report.figures.accuracy_vs_k import FIGURE as ACCURACY
from residual_audio.report.tables import to_markdown
from residual_audio.rounding import fixed

TOP, PNG_DPI = 8, 130
HOW_TO_READ = """How to read it:

- The tables show the *best* of many lists, so some look coherent by chance. "How much of it is more than chance" counts all lists.
- z is against random words, null z and p against the same method on permuted data. p is at least 1/(permutations + 1) and is not corrected
  for the number of lists.
- "Explained" is the fraction of the variance of the unit's share that the words cover (for components: of the direction in which they move
  the embedding). The dictionary has no words for the rest.
- The clips are those that show the first word most, given by their class. If they have nothing to do with the word, the word does not
  describe the head.
"""


def relative(command: str) -> str:
    """A command without the writer's own folders."""
    return " ".join("runs/" + Path(word).name if word.startswith(("../", "/")) else word for word in command.split())


def table(folder: Path, name: str) -> pd.DataFrame:
    return pd.read_parquet(folder / "tables" / f"{name}.parquet")


def record(folder: Path, name: str) -> dict:
    return json.loads((folder / f"{name}.json").read_text())


def best_lists(folder: Path, method: str, top: int = TOP) -> str:
    """The most coherent lists of a method, with the clips that show their first word."""
    lists, words = table(folder, "descriptions"), table(folder, "words")
    first = words[words["rank"] == 1].set_index(["label", "method", "component"]).clip_labels
    best = lists[lists.method == method].nlargest(top, "z_null")
    return to_markdown(
        pd.DataFrame(
            {
                "unit": [r.label + (f" PC{r.component}" if r.component else "") for r in best.itertuples()],
                "words": best.words.to_list(),
                "explained": [f"{100 * v:.0f} %" for v in best.explained],
                "z": [fixed(v, 1) for v in best.z_dictionary],
                "null z": [fixed(v, 1) for v in best.z_null],
                "p": [fixed(v, 2) for v in best.p_null],
                "stability": [fixed(v, 2) for v in best.stability],
                "clips for the first word": [first[r.label, r.method, r.component] for r in best.itertuples()],
            }
        )
    )


def trust(folder: Path) -> str:
    """How many lists are coherent at all, and whether that is more than chance."""
    rows = []
    for method, lists in table(folder, "descriptions").groupby("method", sort=False):
        hits = int((lists.p_null <= 0.05).sum())
        rows.append(
            {
                "method": method,
                "lists": len(lists),
                "p ≤ 0.05": hits,
                "by chance": f"{0.05 * len(lists):.1f}",
                "binomial p": f"{binomtest(hits, len(lists), 0.05, 'greater').pvalue:.2g}",
                "mean z": fixed(lists.z_dictionary.mean(), 2),
                "mean null z": fixed(lists.z_null.mean(), 2),
                "mean explained": f"{100 * lists.explained.mean():.0f} %",
                "mean stability": fixed(lists.stability.mean(), 2),
            }
        )
    return to_markdown(pd.DataFrame(rows))


def verdict(folder: Path) -> str:
    """In words: are there more coherent lists than chance gives, and which heads do both methods for whole heads call coherent?"""
    lists = table(folder, "descriptions")
    chance = {m: binomtest(int((x.p_null <= 0.05).sum()), len(x), 0.05, "greater").pvalue for m, x in lists.groupby("method", sort=False)}
    more = [m for m, p in chance.items() if p <= 0.05]
    best = [lists[lists.method == m].nlargest(TOP, "z_null").label.tolist() for m in ("textspan", "somp")]
    both = [label for label in best[0] if label in best[1]]
    answer = f"More coherent lists than chance gives: {', '.join(more)}." if more else (
        "**No method finds more coherent lists than chance would** at the level of 5 %: as a whole, these heads are not cleanly nameable "
        "with this dictionary and these clips, and most of their variance is left without a word."
    )  # fmt: skip
    agreed = f" Among the {TOP} most coherent by TextSpan *and* by simultaneous OMP: {', '.join(both)}." if both else ""
    return answer + agreed + "\n"


def stages(folder: Path) -> str:
    counts = table(folder, "coherent_stages")
    counts["share"], counts["expected"] = ([f"{100 * v:.0f} %" for v in counts[c]] for c in ("share", "expected"))
    return to_markdown(
        counts[["method", "stage", "heads", "most_coherent", "share", "expected", "mean_z_null", "significant"]],
        decimals={"mean_z_null": 2},
    )


def kept(folder: Path) -> str:
    summary = table(folder, "selection_summary")
    percent = {"no head": "accuracy_none", f"{summary.few[0]} heads (5 %)": "accuracy_few", "all heads": "accuracy_all"}
    shown = {
        "MLPs and embedding": summary.others,
        "ranking": summary.ranking,
        **{k: [fixed(100 * v, 1) for v in summary[c]] for k, c in percent.items()},
    }
    near = [f"{r.reached} ({100 * r.reached / r.heads:.0f} %)" for r in summary.itertuples()]
    return to_markdown(pd.DataFrame({**shown, "k that reaches 95 % of that": near}))


def known_share() -> tuple[int, int]:
    """AudioSet names all of whose words occur in `tiny`'s captions, of all."""
    known = {w for phrase in load_dictionary("synthetic").words for w in phrase.casefold().replace("-", " ").split()}
    names = [n.casefold().translate(str.maketrans("-,()", "    ")).split() for n in load_dictionary("audioset").words]
    return sum(set(n) <= known for n in names), len(names)


def run_part(folder: Path, out: Path) -> list[str]:
    info, name = record(folder, "describe"), Run.open(folder).info["dataset"]["name"]
    target = out.parent / f"{out.stem}-{name}-accuracy_vs_k.png"
    ACCURACY({"selection": table(folder, "selection")}, Context.of(info)).savefig(target, dpi=PNG_DPI)
    return [
        f"## {name}: {info['clips']} clips, {info['dictionary']['words']} words ({', '.join(info['dictionary']['names'])})\n",
        f"### Most coherent heads, TextSpan\n\n{best_lists(folder, 'textspan')}",
        f"### Most coherent heads, simultaneous OMP\n\n{best_lists(folder, 'somp')}",
        f"### Most coherent components, correlation route\n\n{best_lists(folder, 'correlation')}",
        f"### How much of it is more than chance\n\n{trust(folder)}\n{verdict(folder)}",
        f"### Where the most coherent tenth of the heads is\n\n{stages(folder)}",
        f"### Accuracy with the best k heads\n\n{kept(folder)}\n![accuracy against heads kept]({target.name})\n",
    ]


def other_part(first: Path, folder: Path) -> list[str]:
    known, count = known_share()
    both = [table(f, "descriptions") for f in (first, folder)]
    own = [100 * lists[lists.method == "textspan"].explained.mean() for lists in both]
    return [
        f"## The same heads in AudioSet's {count} names\n",
        f"Only {known} of the {count} names consist of words that `tiny` has ever read. TextSpan explains {own[1]:.0f} % of a head's "
        f"variance with them and {own[0]:.0f} % with the words it knows: variance explained does not tell meaning from noise. "
        "The nulls and the clips do.\n",
        best_lists(folder, "textspan", 4),
        trust(folder),
    ]


def map_part(folder: Path, out: Path) -> list[str]:
    asked, units = record(folder, "ask"), table(folder, "ask_units").head(TOP)
    cells = table(folder, "ask_map")
    picture = next((folder / "figures").glob("token_map*.png"))
    target = out.parent / f"{out.stem}-token_map.png"
    Image.open(picture).convert("RGB").quantize(256).save(target, optimize=True)  # far fewer bytes, hardly a difference to the eye
    shown = pd.DataFrame(
        {
            "unit": units.label,
            "share of the variance": [f"{100 * v:.1f} %" for v in units.share],
            "correlation": [fixed(v, 2) for v in units.correlation],
            "clips that show it": units.clip_labels,
        }
    )
    return [
        f"## Asked for “{asked['text']}”\n",
        f"Cosine {asked['score_mean']:+.3f} ± {asked['score_std']:.3f} over {asked['clips']} clips of {asked['dataset']}.\n",
        to_markdown(shown),
        f"The map of {cells['clip'].iloc[0]} sums to {cells.value.sum():+.4f}; its cosine is {cells.score.iloc[0]:+.4f}.\n",
        "The map shows where units *write* what moves the embedding towards the text; compare it with the spectrogram before taking it for "
        "where the sound is.\n",
        f"![map]({target.name})\n",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--other", type=Path, help="the first run described with AudioSet's names")
    parser.add_argument("--map", type=Path, help="what `ask … --clip … --out` wrote")
    parser.add_argument("--extracted-by", nargs="*", default=[], help="the `extract` commands, which a run does not record")
    parser.add_argument("--machine", default="2 cores of an AMD EPYC (AVX2), CPU only, busy with other work")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    folders = [*args.runs, *([args.other] if args.other else [])]
    commands = [*args.extracted_by, *(record(f, "describe")["command"] for f in folders)]
    commands += [record(args.map, "ask")["command"]] if args.map else []
    lines = ["# Words for the heads of `tiny`\n", f"Made on {args.machine} by\n", "```", *map(relative, commands)]
    lines += [relative("python scripts/describe_page.py " + " ".join(a if " " not in a else f'"{a}"' for a in sys.argv[1:])), "```\n"]
    lines += ["Columns and their definitions: [meaning](../meaning.md). Every number below is from the runs' tables.\n"]
    lines += [HOW_TO_READ]
    args.out.parent.mkdir(parents=True, exist_ok=True)
    for folder in args.runs:
        lines += run_part(folder, args.out)
    lines += other_part(args.runs[0], args.other) if args.other else []
    lines += map_part(args.map, args.out) if args.map else []
    args.out.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
