"""The REST source's workshop: what is declared, how an API is paged through, and how its pages become rows."""
