//! A model's files on disk: one GGUF file or the parts of one, or the folder of a checkpoint.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use decant::{
    exec::Executor,
    generation::Engine,
    load::{CheckpointFiles, LoadOptions, Loader},
    weights::{Index, Metadata, gguf, safetensors},
};
use pollster::block_on;

use crate::Outcome;

/// Bytes read at once.
const PIECE: usize = 1 << 20;

/// Loads the model at `path` as a page does: in pieces, none of them kept.
pub fn load(path: &Path, executor: Box<dyn Executor>, options: LoadOptions) -> Outcome<Engine> {
    let (mut loader, files) = if path.is_dir() {
        let small = Small::read(path)?;
        let loader = Loader::checkpoint(executor, options, &small.files())?;
        let files = loader.files().iter().map(|name| path.join(name)).collect();
        (loader, files)
    } else {
        let files: Vec<PathBuf> = parts(path);
        (Loader::gguf(executor, options, files.len()), files)
    };
    let passes = if files.len() > 1 { 2 } else { 1 };
    for _ in 0..passes {
        for (i, path) in files.iter().enumerate() {
            let (file, size) = open(path)?;
            loader.begin(i, Some(size))?;
            pieces(path, file, |piece| Ok(block_on(loader.push(piece))?))?;
        }
    }
    Ok(block_on(loader.finish())?)
}

/// What the headers of the model at `path` say.
pub fn index(path: &Path) -> Outcome<Index> {
    if !path.is_dir() {
        let files = parts(path);
        let indices = files.iter().map(|path| {
            header(path, |size| {
                let mut header = gguf::Header::new(Some(size));
                move |bytes: Option<&[u8]>| match bytes {
                    Some(bytes) => header.push(bytes),
                    None => header.finish().map(|()| None),
                }
            })
        });
        return Ok(Index::join(indices.collect::<Outcome<_>>()?)?);
    }
    let small = Small::read(path)?;
    let files = match &small.index {
        Some(index) => safetensors::Shards::from_json(index)?.files,
        None => vec!["model.safetensors".into()],
    };
    let indices = files.iter().map(|name| {
        header(&path.join(name), |size| {
            let mut header = safetensors::Header::new(Some(size));
            move |bytes: Option<&[u8]>| match bytes {
                Some(bytes) => header.push(bytes),
                None => header.finish().map(|()| None),
            }
        })
    });
    let mut index = Index::join(indices.collect::<Outcome<_>>()?)?;
    index.metadata = Metadata::from_json("config.json", &small.config)?;
    Ok(index)
}

/// The small files of a checkpoint.
struct Small {
    config: Vec<u8>,
    tokenizer: Vec<u8>,
    tokenizer_config: Option<Vec<u8>>,
    chat_template: Option<Vec<u8>>,
    generation_config: Option<Vec<u8>>,
    index: Option<Vec<u8>>,
}

impl Small {
    fn read(folder: &Path) -> Outcome<Self> {
        let required = |name: &str| {
            let path = folder.join(name);
            fs::read(&path).map_err(|error| at(&path, &error))
        };
        let optional = |name: &str| match fs::read(folder.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read
                .map(Some)
                .map_err(|error| at(&folder.join(name), &error)),
        };
        Ok(Self {
            config: required("config.json")?,
            tokenizer: required("tokenizer.json")?,
            tokenizer_config: optional("tokenizer_config.json")?,
            chat_template: optional("chat_template.jinja")?,
            generation_config: optional("generation_config.json")?,
            index: optional("model.safetensors.index.json")?,
        })
    }

    fn files(&self) -> CheckpointFiles<'_> {
        CheckpointFiles {
            config: &self.config,
            tokenizer: &self.tokenizer,
            tokenizer_config: self.tokenizer_config.as_deref(),
            chat_template: self.chat_template.as_deref(),
            generation_config: self.generation_config.as_deref(),
            index: self.index.as_deref(),
        }
    }
}

/// All parts of a GGUF model that is split, any of which may be named; otherwise the file itself.
fn parts(path: &Path) -> Vec<PathBuf> {
    let all = || {
        let stem = path.file_name()?.to_str()?.strip_suffix(".gguf")?;
        let (stem, count) = stem.rsplit_once("-of-")?;
        let (stem, number) = stem.rsplit_once('-')?;
        let total: usize = count.parse().ok()?;
        let right = number.len() == 5 && count.len() == 5 && (1..=1000).contains(&total);
        let part = |i| path.with_file_name(format!("{stem}-{i:05}-of-{count}.gguf"));
        right.then(|| (1..=total).map(part).collect())
    };
    all().unwrap_or_else(|| vec![path.into()])
}

/// Reads the header at the beginning of a file; `reader` makes something that takes its bytes and, after the
/// last, nothing.
fn header<R>(path: &Path, reader: impl FnOnce(u64) -> R) -> Outcome<Index>
where
    R: FnMut(Option<&[u8]>) -> decant::error::Result<Option<(Index, usize)>>,
{
    let (file, size) = open(path)?;
    let mut reader = reader(size);
    let mut found = None;
    pieces(path, file, |piece| {
        found = reader(Some(piece))?.map(|(index, _)| index);
        Ok(found.is_none())
    })?;
    match found {
        Some(index) => Ok(index),
        None => {
            reader(None)?;
            Err(format!("{}: the header is not complete", path.display()).into())
        }
    }
}

/// Gives the bytes of a file to `take`, piece by piece, until it answers that it has enough.
fn pieces(
    path: &Path,
    mut file: File,
    mut take: impl FnMut(&[u8]) -> Outcome<bool>,
) -> Outcome<()> {
    let mut piece = vec![0; PIECE];
    loop {
        let read = file.read(&mut piece).map_err(|error| at(path, &error))?;
        if read == 0 || !take(&piece[..read])? {
            return Ok(());
        }
    }
}

fn open(path: &Path) -> Outcome<(File, u64)> {
    let file = File::open(path).map_err(|error| at(path, &error))?;
    let size = file.metadata()?.len();
    Ok((file, size))
}

fn at(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}
