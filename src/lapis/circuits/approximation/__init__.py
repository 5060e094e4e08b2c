"""Models too wide to compile, as the closest circuit within a budget of edges."""
