"""Import of labelled sequences from files, arrays and the Hugging Face hub."""
