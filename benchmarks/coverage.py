"""How often intervals of pass@k miss the truth: models that solve few problems, several samples per problem.

    python -m benchmarks.coverage [simulations]

Each line is a benchmark of so many problems. A model can solve some share of them, each with a probability per sample
that is fixed or drawn from Beta(0.7, 1.2); the others never. Of each of many benchmarks drawn this way, the interval
at 95% either holds the true pass@k or misses it. Prints a table in Markdown: misses in percent (nominal 5) and mean
width of the interval in use, and of the bootstrap that it replaced; then the same for the difference of two models that
have most problems in common.
"""

import math
import sys

import numpy as np

from scripts.evaluation.results.intervals import (
    Resampled,
    estimate,
    fewest_documents,
    mean_difference_interval,
    mean_interval,
)

PROBLEMS, SOLVABLE, CHANCES, DRAWS = (30, 164, 400), (0.02, 0.05, 0.2, 0.5, 0.9), (0.2, "beta", 0.9), ((10, 1), (20, 5))
BOOTSTRAPS = 400


def chances(chance: float | str, shape: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    """The probability that a sample passes, for each solvable problem."""
    return generator.beta(0.7, 1.2, shape) if chance == "beta" else np.full(shape, chance)


def observed(chance: np.ndarray, samples: int, k: int, generator: np.random.Generator) -> np.ndarray:
    """The unbiased estimate of pass@k of each problem."""
    table = np.array([1 - math.comb(samples - passed, k) / math.comb(samples, k) for passed in range(samples + 1)])
    return table[generator.binomial(samples, chance)]


def bootstrapped(values: np.ndarray, generator: np.random.Generator) -> list[float] | None:
    """The interval of the mean as before: a bootstrap over problems."""
    draws = values[generator.integers(0, len(values), (BOOTSTRAPS, len(values)))].sum(axis=1, keepdims=True)
    sums = Resampled(len(values), np.array([values.sum()]), draws)
    return estimate(sums, lambda totals: totals[..., 0] / len(values), 0.95)["interval"]


def missed(intervals: list[list[float] | None], truth: float) -> str:
    """Misses in percent and mean width, of the intervals that there are."""
    measured = [interval for interval in intervals if interval is not None]
    misses = sum(not low <= truth <= high for low, high in measured) / len(intervals)
    return f"{misses:.1%} | {np.mean([high - low for low, high in measured]):.3f}"


def main() -> None:
    simulations, generator = int(sys.argv[1]) if len(sys.argv) > 1 else 2000, np.random.default_rng(1)
    print("| problems | solvable | chance | samples, k | missed | width | bootstrap missed | its width |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|")
    for count in PROBLEMS:
        for share in SOLVABLE:
            for chance in CHANCES:
                for samples, k in DRAWS:
                    truth = share * float((1 - (1 - chances(chance, (200_000,), generator)) ** k).mean())
                    of_each = chances(chance, (simulations, count), generator)
                    solvable = generator.random((simulations, count)) < share
                    values = observed(of_each * solvable, samples, k, generator)
                    ours = missed([mean_interval(row, 0.95) for row in values], truth)
                    old = missed([bootstrapped(row, generator) for row in values[:400]], truth)
                    print(f"| {count} | {share:.0%} | {chance} | {samples}, {k} | {ours} | {old} |", flush=True)
    print("\n| problems | solvable by each | samples, k | missed | width |\n|---:|---:|---:|---:|---:|")
    for count in PROBLEMS[:2]:
        for first, second in ((0.05, 0.05), (0.05, 0.1), (0.2, 0.3), (0.5, 0.6), (0.9, 0.8)):
            for samples, k in DRAWS:
                truth = (first - second) * float((1 - (1 - chances("beta", (200_000,), generator)) ** k).mean())
                rank, of_each = generator.random((simulations, count)), chances("beta", (simulations, count), generator)
                first_counts, second_counts = (
                    observed(of_each * (rank < share), samples, k, generator) for share in (first, second)
                )
                intervals = [
                    mean_difference_interval(*rows, 0.95)
                    if np.count_nonzero(rows[0] != rows[1]) >= fewest_documents(0.95)
                    else None
                    for rows in zip(first_counts, second_counts, strict=True)
                ]
                if any(intervals):
                    print(
                        f"| {count} | {first:.0%}, {second:.0%} | {samples}, {k} | {missed(intervals, truth)} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
