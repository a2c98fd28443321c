"""Publishes a blessed model as one more version, in one step."""
