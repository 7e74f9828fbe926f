"""Turn finished experiments into what is committed: small summaries and small pictures.

Usage: python tools/publish_results.py [RUNS [RESULTS]]. Writes RESULTS/NAME.parquet (mean and
standard error per round), RESULTS/NAME-finals.parquet (where every run ended) and
RESULTS/figures/NAME-*.png (256 colours) for every experiment in RUNS.
"""

import io
import sys
from pathlib import Path

from PIL import Image

from superarm.errors import DataError
from superarm.experiments import Study
from superarm.experiments.figures import draw_figures
from superarm.experiments.study import write_finals, write_summary


def main() -> None:
    """Publish all experiments of a folder."""
    runs = Path(sys.argv[1] if len(sys.argv) > 1 else "runs")
    results = Path(sys.argv[2] if len(sys.argv) > 2 else "results")  # noqa: PLR2004 - the second
    pictures = results / "figures"
    pictures.mkdir(parents=True, exist_ok=True)
    for folder in sorted(runs.iterdir()):
        study = Study(folder)
        name = study.experiment.name
        try:
            write_finals(study, results / f"{name}-finals.parquet")
            write_summary(study, results / f"{name}.parquet")
        except DataError as error:
            print(f"no summary: {error}")  # nothing was run twice
        for label, picture in draw_figures(study, folder / "figures").items():
            target = pictures / f"{name}-{label}.png"
            small = Image.open(io.BytesIO(picture)).convert("RGB").quantize(256)
            small.save(target, optimize=True)
            print(f"{target}: {target.stat().st_size // 1024} KB")


if __name__ == "__main__":
    main()
