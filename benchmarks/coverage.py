"""How often the intervals of evaluation miss the truth, on drawn problems and on real files. Nominal are 5 of 100.

    python -m benchmarks.coverage [simulations]

Four tables, printed and stored for docs/evaluation.md:

- pass@k of one model, on so many problems. It can solve some share of them, each with a probability per sample that is
  fixed or drawn from Beta(0.7, 1.2); the others never. Beside it Student's t.
- the difference of two such models that have most problems in common.
- the mean of skewed differences: exponential, log-normal, and one in ten solved by a near copy. Beside it Student's t,
  Johnson's t (1978), the bootstrap-t and BCa (Efron and Tibshirani 1993).
- bits per byte on real files, of two "models": a compressor that has read 600 kB of the same package, and one that has
  read as much of another one. Files are drawn out of the package's other files with replacement, singly or a module
  together with its test, and for several seeds each with an effect of its own; the truth is the difference over all.
"""

import importlib.util
import math
import sys
from pathlib import Path

import numpy as np
import zstandard
from scipy import stats

from benchmarks.figures import Table, Value, store
from scripts.common.units import clusters
from scripts.evaluation.results import intervals as statistics
from scripts.evaluation.results.comparison import compare_seeds
from scripts.evaluation.suites.perplexity import SUITE

PROBLEMS, SOLVABLE, CHANCES, DRAWS = (30, 164, 400), (0.02, 0.05, 0.2, 0.5, 0.9), (0.2, "beta", 0.9), ((10, 1), (20, 5))
PAIRS = ((0.05, 0.05), (0.05, 0.1), (0.2, 0.3), (0.5, 0.6), (0.9, 0.8))
OWN, OTHER = "pandas", "scipy"  # packages of this environment that come with their tests
FILES, SEEDS = (12, 24, 60), (1, 2, 3, 5)
SEED_SPREAD, REST_SPREAD = 0.02, 0.05  # bits per byte: of a seed on all files, and of a seed on one file
READ, LONGEST = 600_000, 40_000  # bytes that the compressor has read; bytes of a file that it compresses
FILES_A_DRAW = 50  # at most, so that a few draws compress few files
BITS = SUITE.metrics["bits_per_byte"].compute

Interval = list[float] | None


def chances(chance: float | str, shape: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    """The probability that a sample passes, for each solvable problem."""
    return generator.beta(0.7, 1.2, shape) if chance == "beta" else np.full(shape, chance)


def observed(chance: np.ndarray, samples: int, k: int, generator: np.random.Generator) -> np.ndarray:
    """The unbiased estimate of pass@k of each problem."""
    table = np.array([1 - math.comb(samples - passed, k) / math.comb(samples, k) for passed in range(samples + 1)])
    return table[generator.binomial(samples, chance)]


def missed(intervals: list[Interval], truth: float) -> tuple[float, float]:
    """(Misses in percent of all, mean width) of the intervals that there are."""
    measured = [interval for interval in intervals if interval is not None]
    misses = sum(not low <= truth <= high for low, high in measured) / len(intervals)
    return round(100 * misses, 1), round(float(np.mean([high - low for low, high in measured])), 3)


def single_models(simulations: int, generator: np.random.Generator) -> Table:
    """pass@k of one model."""
    rows: Table = [["problems", "solvable", "chance", "samples, k", "missed %", "width", "t missed %", "its width"]]
    for count in PROBLEMS:
        alone = np.arange(count)
        for share in SOLVABLE:
            for chance in CHANCES:
                for samples, k in DRAWS:
                    truth = share * float((1 - (1 - chances(chance, (200_000,), generator)) ** k).mean())
                    of_each = chances(chance, (simulations, count), generator)
                    solvable = generator.random((simulations, count)) < share
                    values = observed(of_each * solvable, samples, k, generator)
                    ours = missed([statistics.mean_interval(row, alone, 0.95) for row in values], truth)
                    plain = missed([statistics.estimate(row, count, 0.95).interval for row in values], truth)
                    rows.append([count, f"{share:.0%}", str(chance), f"{samples}, {k}", *ours, *plain])
    return rows


def pairs_of_models(simulations: int, generator: np.random.Generator) -> Table:
    """The difference of pass@k of two models."""
    rows: Table = [["problems", "solvable by each", "samples, k", "missed %", "width"]]
    for count in PROBLEMS[:2]:
        for first, second in PAIRS:
            for samples, k in DRAWS:
                truth = (first - second) * float((1 - (1 - chances("beta", (200_000,), generator)) ** k).mean())
                rank, of_each = generator.random((simulations, count)), chances("beta", (simulations, count), generator)
                gaps = observed(of_each * (rank < first), samples, k, generator)
                gaps = gaps - observed(of_each * (rank < second), samples, k, generator)
                intervals: list[Interval] = []
                for gap in gaps:
                    differing = int(np.count_nonzero(gap))
                    enough = differing >= statistics.fewest_clusters(0.95)
                    intervals.append(statistics.estimate(gap, differing, 0.95).interval if enough else None)
                if any(intervals):
                    rows.append([count, f"{first:.0%}, {second:.0%}", f"{samples}, {k}", *missed(intervals, truth)])
    return rows


def one_copy_in_ten(shape: tuple[int, int], generator: np.random.Generator) -> np.ndarray:
    return np.where(generator.random(shape) < 0.1, 1.0, 0.0) + generator.normal(0, 0.02, shape)


SHAPES = {  # name → (draw, the true mean)
    "exponential": (lambda shape, generator: generator.exponential(size=shape), 1.0),
    "log-normal": (lambda shape, generator: generator.lognormal(size=shape), math.exp(0.5)),
    "one near copy in ten": (one_copy_in_ten, 0.1),
}


def johnson(values: np.ndarray) -> Interval:
    """Johnson's t, corrected for skewness in its first order."""
    low, high = stats.t.interval(0.95, len(values) - 1, values.mean(), stats.sem(values))
    shift = stats.moment(values, 3) / (6 * values.var(ddof=1) * len(values))
    return [low + shift, high + shift]


def bootstrap_t(values: np.ndarray, generator: np.random.Generator, resamples: int = 499) -> Interval:
    """The interval from resampled t values."""
    drawn = generator.choice(values, (resamples, len(values)))
    errors = np.maximum(stats.sem(drawn, axis=1), 1e-12)
    low, high = np.quantile((drawn.mean(axis=1) - values.mean()) / errors, [0.025, 0.975])
    return [values.mean() - high * stats.sem(values), values.mean() - low * stats.sem(values)]


def skewed_differences(simulations: int, generator: np.random.Generator) -> Table:
    """The mean of skewed differences, by several procedures."""
    rows: Table = [["shape", "files", "missed %", "width", "t", "Johnson", "bootstrap-t", "BCa"]]
    for name, (draw, truth) in SHAPES.items():
        for count in (6, 12, 24, 60):
            drawn = draw((simulations, count), generator)
            ours = missed([statistics.estimate(row, count, 0.95).interval for row in drawn], truth)
            others = []
            for procedure in (
                lambda row: list(stats.t.interval(0.95, len(row) - 1, row.mean(), stats.sem(row))),
                johnson,
                lambda row: bootstrap_t(row, generator),
                lambda row: list(
                    stats.bootstrap((row,), np.mean, n_resamples=499, method="BCa", rng=generator).confidence_interval
                ),
            ):
                others.append(missed([procedure(row) for row in drawn], truth)[0])
            rows.append([name, count, *ours, *others])
    return rows


def python_files(package: str) -> dict[str, bytes]:
    """The files of an installed package, by path below its folder's parent."""
    [folder] = importlib.util.find_spec(package).submodule_search_locations
    paths = sorted(Path(folder).rglob("*.py"))
    return {path.relative_to(Path(folder).parent).as_posix(): path.read_bytes() for path in paths}


def compressor(contents: list[bytes]) -> zstandard.ZstdCompressor:
    """zstd that has read the last `READ` bytes of these."""
    read = zstandard.ZstdCompressionDict(b"".join(contents)[-READ:], dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    return zstandard.ZstdCompressor(level=19, dict_data=read)


def real_files(simulations: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(float64 [files, 2 * width]: the figures of both compressors on each file; int [files]: its cluster)."""
    own, other = ({name: raw for name, raw in python_files(name).items() if len(raw) > 500} for name in (OWN, OTHER))
    names = generator.permutation(sorted(own)).tolist()[: FILES_A_DRAW * simulations]
    half = len(names) // 5
    models = compressor([own[name] for name in names[:half]]), compressor(list(other.values()))
    rows = []
    for name in names[half:]:
        text = own[name][:LONGEST]
        bits = [8 * len(model.compress(text)) * math.log(2) for model in models]
        rows.append([bits[0], 1, len(text), 1, bits[1], 1, len(text), 1])
    return np.array(rows, dtype=np.float64), clusters(names[half:], "file")


def real_interval(drawn: np.ndarray, seeds: int, generator: np.random.Generator) -> list[float]:
    """The interval of the difference on drawn clusters, [clusters, 2 * width], with so many seeds."""
    effective, size = statistics.effective_number(drawn[:, 2]), drawn[:, 2] * math.log(2)
    values = []
    for _ in range(seeds):
        figures = drawn.copy()
        if seeds > 1:
            noise = generator.normal(0, SEED_SPREAD) + generator.normal(0, REST_SPREAD, len(drawn))
            figures[:, 0] += noise * size
        values.append(statistics.cluster_values(figures[:, :4], BITS) - statistics.cluster_values(figures[:, 4:], BITS))
    if seeds == 1:
        return statistics.estimate(values[0], effective, 0.95).interval
    return compare_seeds(np.stack(values), effective, 0.95).interval


def files_and_seeds(simulations: int, generator: np.random.Generator) -> Table:
    """The difference of bits per byte on real files."""
    rows: Table = [["files drawn", "number", "seeds", "missed %", "width", "missed % if files are taken as unrelated"]]
    figures, numbers = real_files(simulations, generator)
    truth = float(BITS(figures[:, :4].sum(axis=0)) - BITS(figures[:, 4:].sum(axis=0)))
    members = [np.flatnonzero(numbers == number) for number in range(numbers.max() + 1)]
    for kind, population in (("singly", figures), ("with their tests", statistics.sums_by_cluster(figures, numbers))):
        for count in FILES:
            for seeds in SEEDS:
                ours, naive = [], []
                for _ in range(simulations):
                    chosen = generator.integers(0, len(population), count)
                    ours.append(real_interval(population[chosen], seeds, generator))
                    if kind == "with their tests" and seeds == 1:
                        single = figures[np.concatenate([members[number] for number in chosen])]
                        naive.append(real_interval(single, seeds, generator))
                beside = missed(naive, truth)[0] if naive else ""
                rows.append([kind, count, seeds, *missed(ours, truth), beside])
    return rows


def main() -> None:
    simulations, generator = int(sys.argv[1]) if len(sys.argv) > 1 else 2000, np.random.default_rng(1)
    tables = {
        "files": files_and_seeds(simulations, generator),
        "single": single_models(simulations, generator),
        "pairs": pairs_of_models(simulations, generator),
        "skewed": skewed_differences(simulations, generator),
    }
    values = {}
    for name, rows in tables.items():
        for row in rows:
            print(" | ".join(map(str, row)))
        values[f"worst_{name}"] = Value(max(row[rows[0].index("missed %")] for row in rows[1:]), "%")
    conditions = f"{simulations} draws a row; real files: {OWN} of this environment, the other package {OTHER}"
    store("coverage", values, conditions, tables)


if __name__ == "__main__":
    main()
