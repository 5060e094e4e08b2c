"""The tables and figures of five papers, each repeated by one module with the same protocol."""
