"""From result files to the chart, the curves and the tables. Imports no jax, so that `make plot` answers at once."""
