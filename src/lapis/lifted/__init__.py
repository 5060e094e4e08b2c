"""Model × domain sizes → log Z and all its derivatives, without grounding."""
