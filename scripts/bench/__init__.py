"""`make bench`: what each part measures and promises (`python -m scripts.bench`)."""
