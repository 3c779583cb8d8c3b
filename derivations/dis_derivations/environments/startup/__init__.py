"""What runs inside an interpreter that was started with an environment. Nothing of dis is imported here."""
