"""The run report: facts of a run as plain data, and the page that shows them."""
