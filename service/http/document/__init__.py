"""The OpenAPI document, made of the declarations."""
