//! Where the real model is.

use std::{env, path::PathBuf};

/// The path of SmolLM2-135M-Instruct, or `None` if `DECANT_MODEL=skip` says to do without.
///
/// # Panics
/// If the file is not there, saying how to get it: a test that needs it must not pass in silence.
pub fn real_model() -> Option<PathBuf> {
    let path = match env::var_os("DECANT_MODEL") {
        Some(value) if value == "skip" => return None,
        Some(value) => PathBuf::from(value),
        None => {
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("models/SmolLM2-135M-Instruct.Q4_1.gguf")
        }
    };
    assert!(
        path.is_file(),
        "there is no model at {}; get it (98 MB) with\n\
         node -e 'import(\"./xtask/machine.mjs\").then((machine) => machine.model())'\n\
         or set DECANT_MODEL to its path, or to `skip` to leave these tests out",
        path.display()
    );
    Some(path)
}
