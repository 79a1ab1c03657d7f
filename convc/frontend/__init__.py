"""The front door: ONNX files become plain records, of which the compiler knows nothing but the numbers."""
