"""What the store knows of the tensors inside its safetensors files."""
