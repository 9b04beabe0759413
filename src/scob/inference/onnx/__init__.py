"""Exporting a model to one ONNX file, and predicting with it without torch."""
