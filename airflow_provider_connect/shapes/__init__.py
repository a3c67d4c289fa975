"""What happens to rows between source and sink: ``shape=[…]``, applied in the poll, before anything is written."""

from airflow_provider_connect.shapes.cast import Cast
from airflow_provider_connect.shapes.chain import Chain
from airflow_provider_connect.shapes.choice import Drop, Select
from airflow_provider_connect.shapes.condition import Condition
from airflow_provider_connect.shapes.constant import Constant
from airflow_provider_connect.shapes.extract import Extract
from airflow_provider_connect.shapes.filter import Filter
from airflow_provider_connect.shapes.flatten import Flatten
from airflow_provider_connect.shapes.mask import Mask
from airflow_provider_connect.shapes.rename import Rename
from airflow_provider_connect.shapes.route import Route

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
