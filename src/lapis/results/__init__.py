"""The common base of all results: frames, text, HTML, JSON, plots, drawings."""
