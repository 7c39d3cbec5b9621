"""Chains of jobs, in stages after which an interrupted run can be resumed."""
