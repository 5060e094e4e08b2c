"""Problem → ground network in tables of a store: evidence stays where it is."""
