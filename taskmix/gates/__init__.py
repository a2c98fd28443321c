"""What stops a run: judgements over data, as plain findings.

A gate names what is wrong, where, and whether the policy lets it pass; the
components that call these functions only read artifacts and raise.

    findings   Finding, GateError, and the message of a stopped run
    policy     which types of finding stop, warn or pass
    anomalies  what TFDV found
    drift      columns that moved since the last blessed run
    leaks      pictures that stand in two phases
    shards     files that are not what the manifest says
    labels     examples whose columns contradict each other
    examples   one pass over the shards that makes all of these
    sheets     pictures of the examples found
"""

from taskmix.gates.findings import Finding, GateError, raise_on_stop
from taskmix.gates.policy import GatePolicy, Limit

__all__ = ["Finding", "GateError", "GatePolicy", "Limit", "raise_on_stop"]
