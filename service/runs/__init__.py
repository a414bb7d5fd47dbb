"""Carrying an automation out, from receipt to proof: commands and reads."""
