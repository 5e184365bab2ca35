"""How evenly a head looks, and how far: read off its attention weights when the run was made (granularity `attention`)."""

from __future__ import annotations

from . import MEASURES, AttentionMeasure

LOOKS = (
    ("look_entropy", "attention entropy", "entropy of a query's attention over the tokens it may look at", "nats", "attn. entropy"),
    ("look_time", "attention distance in time", "mean distance in time to what is looked at", "seconds", "attn. time"),
    ("look_frequency", "attention distance in frequency", "mean distance in frequency to what is looked at", "mel bands", "attn. freq."),
)
for column, (name, title, text, unit, short) in enumerate(LOOKS):
    for relative in (False, True):
        MEASURES.add(
            AttentionMeasure(
                name=f"{name}_rel" if relative else name,
                title=f"{title}, relative" if relative else title,
                short=f"{short} rel" if relative else short,
                help=f"{text}{'; 1: as if it looked at all of them alike' if relative else ''} (with --of attention)",
                unit="" if relative else unit,
                order=70 + column,
                shown="figures",
                paper=False,
                column_of_reach=column + len(LOOKS) * relative,
            )
        )
