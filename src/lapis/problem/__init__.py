"""Model × worlds × query → what is known, open, asked and refused."""
