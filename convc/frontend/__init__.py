"""The front door: ONNX files become plain records. Only `convc.runtime.network`, `convc.verification` and `convc.backend` import onnx besides."""
