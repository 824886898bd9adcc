"""Figures of results, drawn with matplotlib as SVG."""
