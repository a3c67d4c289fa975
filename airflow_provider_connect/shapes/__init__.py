"""Changes rows between source and sink: ``shape=[…]``, applied during the poll."""

from airflow_provider_connect.shapes.added import Constant, Route
from airflow_provider_connect.shapes.cast import Cast
from airflow_provider_connect.shapes.chain import Chain
from airflow_provider_connect.shapes.choice import Drop, Filter, Rename, Select
from airflow_provider_connect.shapes.condition import Condition
from airflow_provider_connect.shapes.extract import Extract
from airflow_provider_connect.shapes.flatten import Flatten
from airflow_provider_connect.shapes.mask import Mask

__all__ = [
    "Cast",
    "Chain",
    "Condition",
    "Constant",
    "Drop",
    "Extract",
    "Filter",
    "Flatten",
    "Mask",
    "Rename",
    "Route",
    "Select",
]
