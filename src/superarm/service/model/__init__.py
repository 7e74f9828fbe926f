"""What is believed: roads, vehicles, trips and those who measure them, in one Gaussian."""
