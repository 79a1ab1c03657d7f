"""The front door: ONNX files become plain records. The only room that imports onnx."""
