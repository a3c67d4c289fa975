"""What is looked at when a published day comes again."""
