"""Studies: questions, the recipes that answer them and the tables that show it. One file, one study."""
