"""How often intervals hold the truth, on seeds that no test uses: ``PYTHONPATH=. python benchmarks/coverage.py``, a minute on one core.

Prints the coverage of nominal 95 % intervals over groups and over clips, at the group sizes of ESC-50 and NSynth, and of max-t intervals
for 60 units at once. The tests assert ranges on seeds of their own; the max-t estimator was corrected after its test had been seen to
undercover, so its figures are worth something only on other draws.
"""

import numpy as np

from residual_audio.analysis.simultaneous import simultaneous_means
from residual_audio.evaluation.significance import mean_intervals
from tests.evaluation.test_significance import ESC50, INSTRUMENTS, covered, simulated

TRUTH, DRAWS, SEED = 0.6, 500, 101
UNITS, SAMPLES, FIRST_SEED = 60, 200, 90_000
GROUPS = ((40, 5), (100, 2), (400, 1))


def main() -> None:
    for name, sizes in (("ESC-50", ESC50), ("NSynth", INSTRUMENTS)):
        values, groups = simulated(sizes, TRUTH, DRAWS, np.random.default_rng(SEED))
        over = [covered(*mean_intervals(values, by)[1:], TRUTH) for by in (groups, None)]
        print(f"{name}'s group sizes: over groups {over[0]:.3f}, over clips {over[1]:.3f}")
    for count, size in GROUPS:
        groups, inside = np.repeat(np.arange(count), size), []
        for seed in range(SAMPLES):
            rng = np.random.default_rng(FIRST_SEED + seed)
            values = np.repeat(rng.standard_normal((count, UNITS)), size, 0) + 0.5 * rng.standard_normal((count * size, UNITS))
            bounds = simultaneous_means(values, groups, resamples=1000, seed=seed)
            inside.append(bool(((bounds.low <= 0) & (bounds.high >= 0)).all()))
        print(f"max-t, {UNITS} units, {count} groups of {size}: {np.mean(inside):.3f}")


if __name__ == "__main__":
    main()
