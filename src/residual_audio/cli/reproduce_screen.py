"""What ``reproduce`` shows: the list of tables, ours beside the published figures, heads beside heads."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from ..reproduction.targets import Target

OFFLINE = "--model tiny --dataset notes"
SHORT = {"pca_90": "PCA90", "pca_99": "PCA99", "twonn": "TwoNN", "participation_ratio": "PR", "effective_rank": "EffRank", "evr_1": "EVR1",
         "l_n": "L/N", "pca_99_difference": "Δ PCA99", "pca_99_cohens_d": "Cohen's d", "accuracy": "acc. %",
         "accuracy_drop": "drop %", "accuracy_gain": "gain", "accuracy_median": "median %", "accuracy_least": "least %",
         "accuracy_most": "most %", "accuracy_std": "std", "entropy_pca_99_spearman": "ρ entropy", "entropy_drop_pearson": "r entropy",
         "similarity_within": "within stages", "similarity_between": "between stages", "similarity_ratio": "ratio"}  # fmt: skip


SIBLINGS = ("twonn", "mle", "l_n")
SIBLING_NOTE = (
    "the published TwoNN, MLE and L/N are of all clips, several of one recording among them, so they partly measure how alike two cuts "
    "of a recording are; twonn_one, mle_one and l_n_one of `analyze` use one clip per recording"
)


def listing(targets: dict[str, Target]) -> None:
    """Every table with what it needs."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Column, Table

    from .screen import console

    names = Column("table", no_wrap=True), "what", Column("model", overflow="fold"), "data"
    screen = Table(*names, title="Published tables that can be reproduced", box=SIMPLE_HEAD)
    for target in targets.values():
        screen.add_row(target.name, target.what, target.model, ", ".join(target.data))
    console.print(screen)
    console.print(
        "Models come from the hub or its cache (`residual-audio models`), data by --download or --data-root (`residual-audio datasets`).\n"
        "A published table of heads is compared head by head: --published-heads PATH.\n"
        f"Without models and data, the same code runs by: residual-audio reproduce all {OFFLINE}",
        soft_wrap=True,
    )  # fmt: skip


def figure(value: float, measure: str, spread: float = float("nan"), sign: bool = False, decimals: int | None = None) -> str:
    """A number, its spread, and as many decimals as were printed; of ours, enough to be compared."""
    from ..rounding import fixed

    if decimals is None:
        decimals = 0 if measure == "trained" else 3 if measure.startswith(("evr", "similarity", "entropy")) else 2
    plus = "+" if sign and value > 0 else ""
    return plus + fixed(value, decimals) + (f" ± {fixed(spread, decimals)}" if spread == spread else "")


def gap(row: pd.Series | None) -> str:
    """The difference, and = where ours is the published figure to the printed digits, ≈ where it is within the published spread."""
    if row is None or row.difference != row.difference:
        return ""
    mark = " =" if row.as_printed else " ≈" if row.within_std else ""
    return figure(row.difference, row.measure, sign=True) + mark


def show(table: pd.DataFrame, title: str) -> None:
    """One line per figure: published, as its authors measured, by our defaults."""
    import pandas as pd
    from rich.box import SIMPLE_HEAD
    from rich.table import Column, Table

    from ..reproduction.rows import AS_PUBLISHED, BOTH, CLOSE, OURS
    from .screen import console

    compared, several = "published" in table, table.dataset.nunique() > 1
    table = table.assign(within_std=table.within_std.fillna(False), as_printed=table.as_printed.fillna(False)) if compared else table
    right = {"justify": "right", "no_wrap": True}
    table = table[~table.measure.str.startswith("accuracy_fold_")]
    first = next((way, BOTH) for way in (CLOSE, AS_PUBLISHED, BOTH, OURS) if (table.protocol == way).any())
    ways = [w for w in (first, (OURS,)) if table.protocol.isin(w).any()]
    columns = [Column("published", **right)] if compared else []  # type: ignore[arg-type]
    for way in ways:
        columns += [Column(way[0], **right), *([Column("Δ", **right)] if compared else [])]  # type: ignore[arg-type]
    place = Column("", no_wrap=not (several or (table.level == "method").any()), overflow="fold")
    screen = Table(place, Column("", no_wrap=True), *columns, title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for (dataset, level, index, measure), rows in table.groupby(["dataset", "level", "index", "measure"], sort=False):
        where = index if level == "method" else "model" if level == "model" else f"{level} {index}"
        cells = [f"{dataset}, {where}" if several else where, SHORT.get(measure, measure)]
        if compared:
            first = rows.iloc[0]
            known = pd.notna(first.published)
            cells.append(figure(first.published, measure, first.published_std, decimals=int(first.decimals)) if known else "")
        for way in ways:
            own_rows = rows[rows.protocol.isin(way)]
            row = own_rows.iloc[0] if len(own_rows) else None
            same = "same" if row is None and BOTH in set(rows.protocol) else ""
            cells.append(same if row is None else figure(row.ours, measure, row["std"]))
            cells += [gap(row)] if compared else []
        screen.add_row(*cells)
    console.print(screen)


def remark(target: Target, table: pd.DataFrame, figures: pd.DataFrame | None, epochs: int | None) -> None:
    """What to know about the table, and how many figures came out as published."""
    from ..reproduction.published import missing
    from .screen import console

    lines = []
    if figures is None:
        lines.append(f"not compared: {target.name} was published for {target.model} on {', '.join(target.data)}")
    else:
        known = table[table.difference.notna()]
        spread = known[known.within_std.notna()]
        equal, within = int(known.as_printed.sum()), int(spread.within_std.sum())
        lines.append(f"{len(known)} compared: {equal} as printed (=), {within} of {len(spread)} within the published ± (≈)")
        if len(left := missing(table, figures)):
            lines.append(f"{len(left)} published figures have none of ours beside them")
        if target.note:
            lines.append(f"note: {target.note}")
        if table.measure.isin(SIBLINGS).any():
            lines.append(f"note: {SIBLING_NOTE}")
    if target.differs and (table.protocol != "our defaults").any():
        lines.append(f"not theirs, or not known to be: {'; '.join(target.differs)}")
    if epochs is not None and (table.level == "method").any():
        lines.append(f"trained for {epochs} epochs at most: a quick look")
    console.print("\n".join(lines), soft_wrap=True)


def verdict(holds: bool | None) -> str:
    return "cannot be asked" if holds is None or holds != holds else "holds" if holds else "fails"


def show_findings(found: pd.DataFrame) -> None:
    """One line per published finding of this table, by each protocol."""
    from .screen import console

    for (text, source), rows in found.groupby(["text", "source"], sort=False) if len(found) else ():
        alike = rows.said.nunique() == 1 and rows.holds.nunique(dropna=False) == 1
        shown = rows.head(1) if alike else rows
        ways = [f"{verdict(r.holds)}{'' if alike else f' {r.protocol}'} ({r.said})" for r in shown.itertuples()]
        console.print(f"finding ({source}): {text}: {'; '.join(ways)}", soft_wrap=True, markup=False)


def show_pairs(found: pd.DataFrame) -> None:
    """Of several models or datasets: in how many pairs each finding holds."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Column, Table

    from .screen import console

    if len(found[["model", "dataset"]].drop_duplicates()) < 2:
        return
    columns = Column("protocol", no_wrap=True), "holds", "fails", "fails on"
    screen = Table("finding", *columns, title="Published findings on every pair of model and dataset", box=SIMPLE_HEAD)
    for (text, protocol), rows in found.groupby(["text", "protocol"], sort=False):
        asked = rows[rows.holds.notna()]
        wrong = asked[~asked.holds.astype(bool)]
        where = ", ".join(f"{r.model} on {r.dataset}" for r in wrong.itertuples())
        screen.add_row(text, protocol, str(len(asked) - len(wrong)), str(len(wrong)), where)
    console.print(screen)


def show_heads(table: pd.DataFrame, title: str) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from .screen import console

    names = "measure", "heads", "correlation", "mean difference", "largest", "at", "ours", "published"
    screen = Table(*names, title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for _, row in table.iterrows():
        numbers = (figure(row[c], row.measure) for c in ("mean_difference", "largest", "ours", "published"))
        mean, largest, ours, theirs = numbers
        screen.add_row(row.measure, str(row.heads), f"{row.correlation:.4f}", mean, largest, row["at"], ours, theirs)
    console.print(screen)
    console.print("mle: k = 5 as published; mle_k20: our default. twonn: the formula; twonn_fit: the fit.", soft_wrap=True)
