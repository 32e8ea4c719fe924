//! The threads of the CPU executor: workers with instances of their own, which meet in shared memory (`www/crew.ts`).

use js_sys::Error as JsError;
use wasm_bindgen::{JsCast, JsValue, prelude::wasm_bindgen};

use crate::{
    error::{Error, ErrorKind, Result},
    exec::{self, Cpu},
};

#[wasm_bindgen]
extern "C" {
    /// A thread's line to the others.
    pub type Crew;

    #[wasm_bindgen(method, getter)]
    fn index(this: &Crew) -> u32;

    #[wasm_bindgen(method, getter)]
    fn count(this: &Crew) -> u32;

    #[wasm_bindgen(method, getter)]
    fn capacity(this: &Crew) -> u32;

    #[wasm_bindgen(method, catch)]
    fn exchange(
        this: &Crew,
        own: &[u32],
        lens: &[u32],
        others: &mut [u32],
    ) -> std::result::Result<(), JsValue>;

    #[wasm_bindgen(method, catch)]
    fn post(this: &Crew, words: &[u32]) -> std::result::Result<(), JsValue>;

    #[wasm_bindgen(method, catch)]
    fn receive(this: &Crew) -> std::result::Result<Vec<u32>, JsValue>;

    /// The threads of an engine, not started yet.
    pub type Threads;

    /// Starts them; a promise of the line to them.
    #[wasm_bindgen(method, catch)]
    async fn start(this: &Threads) -> std::result::Result<JsValue, JsValue>;
}

/// Does what the thread that leads does, until that is over. For workers of their own.
#[wasm_bindgen]
pub fn follow(crew: Crew) -> Result<()> {
    Cpu::follow(Box::new(crew))
}

/// The compiled module, of which every thread has an instance.
#[wasm_bindgen]
pub fn module() -> JsValue {
    wasm_bindgen::module()
}

impl Threads {
    /// Starts the threads, and answers with the line to them.
    pub(super) async fn hire(&self) -> Result<Crew> {
        let crew = self.start().await;
        let crew = crew.map_err(|error| failed(ErrorKind::Internal, &error))?;
        Ok(crew.unchecked_into())
    }
}

impl exec::Crew for Crew {
    fn index(&self) -> usize {
        Crew::index(self) as usize
    }

    fn count(&self) -> usize {
        Crew::count(self) as usize
    }

    fn capacity(&self) -> usize {
        Crew::capacity(self) as usize
    }

    fn exchange(&self, own: &[u32], lens: &[u32], others: &mut [u32]) -> Result<()> {
        let given = Crew::exchange(self, own, lens, others);
        given.map_err(|error| failed(ErrorKind::DeviceLost, &error))
    }

    fn post(&self, words: &[u32]) -> Result<()> {
        let posted = Crew::post(self, words);
        posted.map_err(|error| failed(ErrorKind::DeviceLost, &error))
    }

    fn receive(&self) -> Result<Vec<u32>> {
        let words = Crew::receive(self);
        words.map_err(|error| failed(ErrorKind::DeviceLost, &error))
    }
}

fn failed(kind: ErrorKind, error: &JsValue) -> Error {
    let message = error.dyn_ref::<JsError>().map(JsError::message);
    Error::new(kind, message.map_or_else(String::new, String::from))
}
