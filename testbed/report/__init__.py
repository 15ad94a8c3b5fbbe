"""From a run folder to figures: statistics, tables, plots. Pure but for the files it writes."""
