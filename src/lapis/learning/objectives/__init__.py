"""Objectives of learning: value, gradient and curvature at some weights."""
