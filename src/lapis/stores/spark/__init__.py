"""Spark: a store of its tables, its folders, and what is left of those who were killed."""

from lapis.stores.spark.store import SparkStore

__all__ = ["SparkStore"]
