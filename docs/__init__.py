"""The pages of this folder are installed as the package `service_docs`: see setup.py."""
