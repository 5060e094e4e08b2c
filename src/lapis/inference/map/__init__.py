"""Most likely worlds: local search for a good one, elimination and programs for a proof."""
