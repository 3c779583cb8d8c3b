"""The words of `outputs.bundle_policy.include`: what of a run goes into archives and directories of it."""

# Without these nothing of a run could be read or checked, so they are always there.
ALWAYS = ("bundle", "manifest", "lock", "tokens", "engine")
CAPTURES = ("logits", "activations", "engine_trace")
# The log holds times, so it is in directories and in no archive.
RUN_LOG_WORD = "run_log"
