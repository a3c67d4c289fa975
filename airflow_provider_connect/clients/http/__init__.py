"""HTTP for sources: requests that end in time, answers that are read strictly."""
