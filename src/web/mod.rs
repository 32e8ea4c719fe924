//! The edge to JavaScript: conversion and nothing else.
//!
//! Structured data crosses as JSON text: the page's side has already refused what JSON cannot carry
//! (`www/plain.ts`). Data handed to JavaScript is a copy. No method holds an exclusive borrow across an
//! await, so that a second call, or a stop, may come in meanwhile.

mod apply;
mod callbacks;
mod crew;
mod engine;
mod error;
mod generation;
mod json;
mod loader;
mod probe;
mod template;

use std::cell::RefCell;

use wasm_bindgen::prelude::*;

thread_local! {
    /// Called with the message of a panic.
    static ON_PANIC: RefCell<Option<js_sys::Function>> = const { RefCell::new(None) };
}

/// Starts the engine. `on_panic` is called with a message when it dies; nothing may be called after.
#[wasm_bindgen]
pub fn start(on_panic: js_sys::Function) {
    ON_PANIC.set(Some(on_panic));
    std::panic::set_hook(Box::new(|info| {
        let message = JsValue::from(info.to_string());
        if let Some(on_panic) = ON_PANIC.take() {
            // A listener that throws changes nothing about the trap that follows.
            let _ = on_panic.call1(&JsValue::NULL, &message);
        }
    }));
}
