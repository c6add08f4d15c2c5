"""Runs as jobs of a cluster: Slurm through submitit, or Ray."""
