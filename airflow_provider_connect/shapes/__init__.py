"""What happens to rows between source and sink: ``shape=[…]``, applied in the poll, before anything is written."""

from airflow_provider_connect.shapes.chain import Chain
from airflow_provider_connect.shapes.choice import Drop, Select
from airflow_provider_connect.shapes.shaping import Shaping

__all__ = ["Chain", "Drop", "Select", "Shaping"]
