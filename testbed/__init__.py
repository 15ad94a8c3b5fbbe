"""What holds an experiment together: the emulated WAN, dynamics, runs, their fidelity and their reports."""
