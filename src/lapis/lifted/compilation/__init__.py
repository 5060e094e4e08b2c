"""Theories over regions of interchangeable constants → first-order circuits."""
