"""The frozen stage: files that never change, and the manifest that says a day is whole."""
