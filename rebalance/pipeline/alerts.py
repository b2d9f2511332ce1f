"""The section [alerts] of a pipeline file: who is told when something needs a person."""

from __future__ import annotations

import re

from pydantic import Field, SecretStr, field_validator

from rebalance.pipeline.section import Section


class Alerts(Section):
    """Who is told when something needs a person."""

    webhook: SecretStr | None = Field(
        None,
        description="Where alerts are posted as JSON: an environment variable that has the URL ('$ALERTS_URL'), or the URL itself; unset = nowhere.",
    )
    timeout_seconds: float = Field(10.0, gt=0, description="How long the webhook may take; then the alert is given up.")
    imbalance_intervals: int = Field(
        3, ge=1, description="After so many intervals in a row beyond θ_max, the imbalance is alerted, once."
    )

    @field_validator("webhook")
    @classmethod
    def _url_or_variable(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not re.match(r"https?://|\$", value.get_secret_value()):
            # Without the value: it may be half of a secret.
            raise ValueError("alerts.webhook is neither a URL (https://…) nor an environment variable ('$ALERTS_URL').")
        return value
