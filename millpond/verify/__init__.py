"""The audit: the ledger, the rows and the log held against each other. It reads and never writes."""

from millpond.verify.command import VerifyOptions, run_verify

__all__ = ["VerifyOptions", "run_verify"]
