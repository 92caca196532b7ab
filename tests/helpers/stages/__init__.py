"""Stages run on small stores."""
