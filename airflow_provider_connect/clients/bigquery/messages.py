"""Interprets BigQuery's messages, and decides which may be shown.

Vendor facts: https://cloud.google.com/bigquery/docs/error-messages, …/quotas,
https://cloud.google.com/bigquery/docs/multi-statement-queries (2026-11).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from airflow_provider_connect.secrets import redact_tokens

_METHOD = re.compile(r"^(?:\d{3} )?(?:GET|POST|PUT|PATCH|DELETE) \S+: ")
_SCRIPT_PREFIX = re.compile(r"^(?:Query error: )+", re.IGNORECASE)
_POSITION = re.compile(r"(?: at (\[\d{1,7}:\d{1,7}\])\.?)+$")

# Only these messages are shown: they name tables, columns, rights and limits, never a record's value.
_NAME = r"[\w.:`$-]+"
_PRINTABLE = re.compile(
    rf"""
    (?:Not\ found|Access\ Denied|Already\ Exists):\ |Permission\ \S+\ denied\ |Requested\ entity\ was\ not\ found|
    (?:Quota|Custom\ quota)\ exceeded\b|(?:Job\ )?[Ee]xceeded\ rate\ limits\b|Exceeds\ .*\bquota\b|
    Billing\ has\ not\ been\ enabled\b|Query\ exceeded\ limit\ for\ bytes\ billed:\ |Resources\ exceeded\b|
    Cannot\ query\ over\ table\ .*\ without\ a\ filter\ over\ column|
    Cannot\ read\ and\ write\ in\ different\ locations\b|Cannot\ process\ data\ across\ locations\b|
    Dataset\ {_NAME}\ (?:was\ not\ found|is)\ in\ |Location\ {_NAME}\ does\ not\ support\b|
    Provided\ Schema\ does\ not\ match\ Table\ |Cannot\ set\ kms\ key\ |
    Unrecognized\ name:\ {_NAME}(?:;\ Did\ you\ mean\ {_NAME}\?)?$|
    Name\ {_NAME}\ not\ found\ inside\ {_NAME}$|Required\ field\ {_NAME}\ cannot\ be\ null\b\.?$|
    Transaction\ is\ aborted\ due\ to\ concurrent\b|Job\ execution\ was\ cancelled\b|Precondition\ check\ failed|
    An?\ internal\ error\ (?:occurred|in)\b|Error\ encountered\ during\ execution\.|Backend\ error\b|
    Deadline\ Exceeded|Socket\ closed|Stream\ removed|failed\ to\ connect\b|
    Service\ (?:is\ )?(?:currently\ )?unavailable|GOAWAY\ received|Too\ many\ (?:DML|partitions|concurrent)\b|
    Your\ administrator\ requires\b
    """,
    re.VERBOSE,
)
_TOPICS = {
    "tooManyStatements": r"(?:Resources exceeded during query execution: )?Too many DML statements outstanding\b",
    "accessDenied": r"Access Denied: |Permission \S+ denied\b|Your administrator requires\b",
    "notFound": r"Not found: (?:Table|Dataset|Project)\b",
    "tooManyPartitions": r"Too many partitions\b",
    "nullInRequired": r"Required field .* cannot be null\b",
    "internalError": r"An? internal error |The job encountered an internal error|Error encountered during execution\.|"
    r"Backend error\b|Service (?:is )?(?:currently )?unavailable",
    "rateLimitExceeded": r"(?:Job )?exceeded rate limits\b",
    "quotaExceeded": r"(?:Custom )?quota exceeded\b",
    "bytesBilledLimitExceeded": r"Query exceeded limit for bytes billed\b",
    "unknownColumn": r"Unrecognized name\b|Name \S+ not found inside\b|Column \S+ is not present in\b|"
    r"Field name \S+ does not exist in\b|(?:Query column \d+|Value) has type .* which cannot be inserted into\b|"
    r"Value of type .* cannot be assigned to\b",
    # Specific phrases: messages with the same first word may be transient ("Cannot modify table … concurrently").
    "invalidQuery": r"Syntax error\b|Name \S+ not found\b|No matching signature\b|(?:Function|Type) not found\b|"
    r"Cannot query over table .* without a filter\b|Cannot (?:coerce|cast|parse|convert|access field|set kms key)\b|"
    r"Could not (?:cast|convert|parse)\b|Invalid (?:cast|date|time|datetime|timestamp|interval|JSON|NUMERIC|BIGNUMERIC|"
    r"value|field name|column name|table name|dataset ID|table ID|project ID)\b|"
    r"Column (?:name )?\S+ (?:is|of type .*) (?:ambiguous|cannot be|has unsupported)\b|"
    r"Field \S+ has (?:changed|incompatible) (?:type|mode)\b|Inserted row has wrong column count\b|"
    r"Duplicate (?:column|field) names?\b|Bad (?:u?int\d+|double|float|bool|numeric|bignumeric) value\b|"
    r"Unsupported cast\b|Division by zero\b|Provided Schema does not match\b|UPDATE/MERGE must match\b|"
    r"Resources exceeded\b|Not found: |Already Exists: |Query text is too long\b",
}
_TOPIC = re.compile("|".join(f"(?P<{name}>{words})" for name, words in _TOPICS.items()), re.IGNORECASE)


@dataclass(frozen=True)
class Message:
    """Parsed message of BigQuery.

    :param text: the message on one line. May hold a record's value.
    :param position: line and column in the script, such as ``[24:9]``, or "".
    """

    text: str
    position: str = ""
    is_from_script: bool = False

    @property
    def topic(self) -> str | None:
        """Reason that the text implies."""
        match = _TOPIC.match(self.text)
        return match.lastgroup if match else None

    @property
    def printable(self) -> str:
        """Message with line and column, or "" if it could hold a record's value."""
        if not _PRINTABLE.match(self.text):
            return ""
        return redact_tokens(self.text)[:300] + (f" at {self.position}" if self.position else "")


def parse_message(text: str) -> Message:
    """Parse a message of BigQuery."""
    line = _METHOD.sub("", " ".join(text.split()))
    text_without_prefix = _SCRIPT_PREFIX.sub("", line)
    position = _POSITION.search(text_without_prefix)
    return Message(
        text_without_prefix[: position.start()] if position else text_without_prefix,
        position[1] if position else "",
        text_without_prefix != line,
    )


def printable_message(text: str) -> str:
    """Return a message as one short line, or "" if it could hold a record's value."""
    return parse_message(text).printable
