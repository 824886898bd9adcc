"""Pictures of results, as SVG."""
