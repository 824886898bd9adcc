"""Mixers: layers that let positions talk. One file, one mixer."""
