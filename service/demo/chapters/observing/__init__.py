"""The product and its signals: a project, a first case, a plan and its proof."""
