"""Files, frames and tables ↔ Database."""
