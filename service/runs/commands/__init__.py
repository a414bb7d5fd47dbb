"""What may be done in automation, a module for each resource: intents but for who asks (G-104 to G-111, G-113).

An intent says which streams and rows a command touches, and decides over them in a unit of work. Where its relations
were read before the locks, the decision compares them under the locks and raises Moved when they differ.
"""

from service.runs.commands import approval, claim, grant, pr_proof, receipt, run, verification

__all__ = ["approval", "claim", "grant", "pr_proof", "receipt", "run", "verification"]
