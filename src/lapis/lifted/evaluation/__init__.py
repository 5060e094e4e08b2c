"""First-order circuits at weights and sizes: log Z, its derivatives, and how sure they are."""
