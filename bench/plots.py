"""Plots of the growth curves, where matplotlib is installed."""

from pathlib import Path

from bench.growth import Curve
from bench.measure import Result


def plot(curve: Curve, results: list[Result], directory: Path) -> Path | None:
    """Draw operations per second and p50/p99.9 over x; return the file, or None without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        return None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    has_latency = any(result.median("streamd", "p50_ms") for result in results)
    figure, axes = pyplot.subplots(1, 2 if has_latency else 1, figsize=(11 if has_latency else 6, 4), squeeze=False)
    for kind, colour in (("streamd", "tab:blue"), ("redis-server", "tab:red")):
        rates = [result.median(kind, "rate") for result in results]
        if any(rates):
            axes[0][0].plot(curve.points, rates, "o-", color=colour, label=kind)
            if has_latency:
                for figure_name, style in (("p50_ms", "o-"), ("p999_ms", "o:")):
                    values = [result.median(kind, figure_name) for result in results]
                    label = f"{kind} {'p50' if figure_name == 'p50_ms' else 'p99.9'}"
                    axes[0][1].plot(curve.points, values, style, color=colour, label=label)
    for axis, label in zip(axes[0], ("operations per second", "latency in ms"), strict=False):
        axis.set_xscale("log")
        axis.set_ylim(bottom=0)
        axis.set_xlabel(curve.xlabel)
        axis.set_ylabel(label)
        axis.grid(alpha=0.3)
        axis.legend()
    figure.suptitle(curve.name)
    figure.tight_layout()
    path = directory / (curve.name.lower().replace(" ", "-") + ".png")
    figure.savefig(path, dpi=90)
    pyplot.close(figure)
    return path
