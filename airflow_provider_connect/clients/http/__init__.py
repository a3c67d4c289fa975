"""HTTP: requests that end in time, answers that are read strictly."""
