//! Errors as JavaScript sees them: an `Error` with a `code` and, where there is one, a `field`.

use wasm_bindgen::JsValue;

use crate::error::{Error, ErrorKind};

impl From<Error> for JsValue {
    fn from(error: Error) -> Self {
        let value = js_sys::Error::new(&error.to_string());
        let field = match error.kind() {
            ErrorKind::InvalidOption { name } | ErrorKind::InvalidWeights { name } => Some(name),
            _ => None,
        };
        set(&value, "code", error.kind().code());
        if let Some(field) = field {
            set(&value, "field", field);
        }
        value.into()
    }
}

fn set(error: &js_sys::Error, key: &str, value: &str) {
    // A fresh Error is extensible, so this cannot fail.
    let _ = js_sys::Reflect::set(error, &key.into(), &value.into());
}
