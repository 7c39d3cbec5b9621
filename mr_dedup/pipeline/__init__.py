"""Chains of jobs: stages that a killed run goes on from."""
