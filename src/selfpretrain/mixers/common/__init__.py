"""Code shared by mixers: attention heads, masks of position pairs, recurrent cells and convolutions."""
