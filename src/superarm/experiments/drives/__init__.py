"""Vehicles that were measured: predicted before they are learned, trip by trip."""

from superarm.experiments.drives.rows import Passages
from superarm.experiments.drives.scoring import Scores, score
from superarm.experiments.drives.study import STUDIES, DriveStudy, run_drive_study

__all__ = ["STUDIES", "DriveStudy", "Passages", "Scores", "run_drive_study", "score"]
