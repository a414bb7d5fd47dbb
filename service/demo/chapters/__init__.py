"""The chapters of the demo, and the plans and policies they rest on."""
