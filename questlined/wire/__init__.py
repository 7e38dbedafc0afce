"""The contract between questlined and its clients, and all of questlined that qlctl may import."""
