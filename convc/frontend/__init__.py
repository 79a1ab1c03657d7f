"""The front door: ONNX files become plain records. Only `convc.graph` and `convc.backend` import onnx besides."""
