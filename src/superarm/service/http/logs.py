"""One JSON object per line on standard error."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import ClassVar


class JsonLines(logging.Formatter):
    """Turns records into JSON, with the fields that were given as extra."""

    _PLAIN: ClassVar[frozenset[str]] = frozenset(
        vars(logging.makeLogRecord({})) | {"message": "", "asctime": "", "color_message": ""}
    )

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        fields |= {name: value for name, value in vars(record).items() if name not in self._PLAIN}
        if record.exc_info:
            fields["trace"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


def log_as_json(level: str) -> None:
    """Send the logs of the service and its web server to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("superarm.service", "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(level.upper())
    logging.getLogger("uvicorn.error").propagate = False
