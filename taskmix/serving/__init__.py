"""From a trained SavedModel to a served one.

policy      what a model must hold before it is pushed: plain settings
signatures  what a SavedModel can be asked, read from its file alone
operations  what a graph would do beside computing
questions   real requests and bad ones, for any signature
warm_up     requests, with their answers, in the file that TF Serving replays
server      a loopback server of TF Serving's gRPC and REST forms
launch      starts that server, or the real one where there is one
client      asks either server in either form
check       all of these together: is this model fit to be served?
versions    the folder that a server watches: publish, list, roll back
"""
