"""Factor graphs → circuits, exactly: by elimination and by search."""
