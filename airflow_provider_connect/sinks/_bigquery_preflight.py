"""What would fail a publish, found before the poll begins (placeholder until H2 delivers)."""


def problems(api, target, layout, columns_for):
    return []
