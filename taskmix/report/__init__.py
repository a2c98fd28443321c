"""The run report: facts of a run as plain data, and the page that shows them."""

# Files of a RunReport artifact: the page, the facts that it is rendered from, and the
# model card, which is there where a net was evaluated.
REPORT, FACTS, CARD = "report.html", "facts.json", "model_card.md"
