"""Skeletons: sequences of joints, their data sets and few-shot recognition of actions."""
