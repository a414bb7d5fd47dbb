"""What every request passes: the gate, the pipeline, the declarations and the schema document."""
