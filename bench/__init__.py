"""Measurements: what we promise about speed and size, as ratios to a baseline measured in the same run."""
