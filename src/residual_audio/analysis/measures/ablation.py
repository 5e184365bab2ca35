"""What a head is worth to the model's answers: the columns of `residual-audio ablate`, which computes them."""

from __future__ import annotations

from . import MEASURES, TableMeasure

MEASURES.add(
    TableMeasure(
        name="margin_drop",
        title="margin drop",
        short="margin drop",
        help="what the true class's margin loses when the head is ablated; positive: the head helps",
        unit="full − ablated",
        order=60,
        about_zero=True,
        source="ablation_head",
    )
)
MEASURES.add(
    TableMeasure(
        name="accuracy_drop",
        title="accuracy drop",
        short="acc. drop",
        help="what accuracy loses when the head is ablated; positive: the head helps",
        unit="full − ablated",
        order=61,
        about_zero=True,
        source="ablation_head",
    )
)
MEASURES.add(
    TableMeasure(
        name="first_order",
        title="first-order margin drop",
        short="first order",
        help="the margin drop as one backward pass estimates it",
        unit="full − ablated",
        order=62,
        about_zero=True,
        source="ablation_head",
    )
)
