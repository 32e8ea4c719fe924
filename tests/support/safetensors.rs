//! Writes safetensors files, sound ones and liars.

use serde_json::{Map, Value, json};

/// A file to be written.
#[derive(Debug, Clone, Default)]
pub struct Safetensors {
    pub tensors: Vec<Tensor>,
    /// The header's JSON, where it is not what the tensors say.
    pub header: Option<String>,
    /// The header's length, where that is not the truth.
    pub length: Option<u64>,
}

/// A tensor of a file.
#[derive(Debug, Clone)]
pub struct Tensor {
    pub name: String,
    pub dtype: String,
    pub shape: Vec<u64>,
    pub data: Vec<u8>,
}

impl Safetensors {
    /// Reads a sound file.
    pub fn read(file: &[u8]) -> Self {
        let length = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
        let data = &file[8 + length..];
        let header: Map<String, Value> = serde_json::from_slice(&file[8..8 + length]).unwrap();
        let tensors = header
            .into_iter()
            .filter(|(name, _)| name != "__metadata__");
        let tensors = tensors.map(|(name, entry)| {
            let numbers = |key: &str| -> Vec<u64> {
                let list = entry[key].as_array().unwrap().iter();
                list.map(|n| n.as_u64().unwrap()).collect()
            };
            let range = numbers("data_offsets");
            Tensor {
                dtype: entry["dtype"].as_str().unwrap().into(),
                shape: numbers("shape"),
                data: data[range[0] as usize..range[1] as usize].to_vec(),
                name,
            }
        });
        Self {
            tensors: tensors.collect(),
            ..Self::default()
        }
    }

    /// Adds a tensor.
    pub fn tensor(mut self, name: &str, dtype: &str, shape: &[u64], data: Vec<u8>) -> Self {
        self.tensors.push(Tensor {
            name: name.into(),
            dtype: dtype.into(),
            shape: shape.into(),
            data,
        });
        self
    }

    /// What the tensors say, one after another.
    pub fn header(&self) -> Map<String, Value> {
        let mut header = Map::new();
        header.insert("__metadata__".into(), json!({ "format": "pt" }));
        let mut at = 0;
        for tensor in &self.tensors {
            let end = at + tensor.data.len();
            let entry =
                json!({ "dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [at, end] });
            header.insert(tensor.name.clone(), entry);
            at = end;
        }
        header
    }

    /// The file.
    pub fn build(&self) -> Vec<u8> {
        let json = || serde_json::to_string(&self.header()).unwrap();
        let header = self.header.clone().unwrap_or_else(json);
        let length = self.length.unwrap_or(header.len() as u64);
        let mut file = length.to_le_bytes().to_vec();
        file.extend(header.bytes());
        file.extend(self.tensors.iter().flat_map(|tensor| &tensor.data));
        file
    }
}
