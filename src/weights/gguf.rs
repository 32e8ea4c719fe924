//! GGUF
