//! The weights of a model, read from a safetensors file.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, ErrorKind as IoErrorKind, Read};
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use memory_core::{Error, Result};
use ndarray::{Array1, Array2};
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use sha2::{Digest, Sha256};

use super::settings::{refused, unreadable};

/// Limit of the header, which lists the tensors, in bytes.
const MAX_HEADER: u64 = 16 << 20;

/// The tensors of a file. Each can be taken out once.
pub(super) struct Weights {
    file: PathBuf,
    tensors: HashMap<String, Tensor>,
    /// The SHA-256 of the file.
    pub(super) digest: [u8; 32],
}

struct Tensor {
    shape: Vec<usize>,
    values: Vec<f32>,
}

/// Reads a file once, front to back, and hashes it on the way.
struct Source<'a> {
    path: &'a Path,
    reader: BufReader<File>,
    hash: Sha256,
}

impl Weights {
    /// Reads all tensors of floating-point numbers as `f32`. Beside them, only the bytes of one tensor are in memory.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|error| unreadable(path, error))?;
        let length = file.metadata().map_err(|error| unreadable(path, error))?.len();
        let mut source = Source { path, reader: BufReader::new(file), hash: Sha256::new() };
        let mut header_length = [0; 8];
        source.fill(&mut header_length)?;
        let header_length = u64::from_le_bytes(header_length);
        let rest = length.saturating_sub(8);
        if header_length > rest.min(MAX_HEADER) {
            return Err(refused(
                path,
                "this is not a safetensors file, or it is cut short: download it again (a clone of git needs git-lfs)",
            ));
        }
        let header = source.take(header_length as usize)?;
        let metadata: Metadata = serde_json::from_slice(&header)
            .map_err(|error| refused(path, "this is not a safetensors file: download it again").with_source(error))?;
        if metadata.data_len() as u64 != rest - header_length {
            return Err(refused(path, "its length is not what its header says: download it again"));
        }
        let mut tensors = HashMap::new();
        // `Metadata` checks that tensors lie one after the other without gaps.
        for name in metadata.offset_keys() {
            let Some(TensorInfo { dtype, shape, data_offsets: (start, end) }) = metadata.info(&name) else { continue };
            let bytes = source.take(end - start)?;
            if let Some(values) = floats(*dtype, &bytes) {
                // Models with a head, such as one for masked words, keep the transformer under this prefix.
                let name = name.strip_prefix("bert.").map_or_else(|| name.clone(), str::to_owned);
                tensors.insert(name, Tensor { shape: shape.clone(), values });
            }
        }
        Ok(Self { file: path.to_owned(), tensors, digest: source.hash.finalize().into() })
    }

    /// Takes out a vector, and checks its length.
    pub(super) fn vector(&mut self, name: &str, length: usize) -> Result<Array1<f32>> {
        self.values(name, &[length]).map(Array1::from_vec)
    }

    /// Takes out a matrix, and checks its rows and columns.
    pub(super) fn matrix(&mut self, name: &str, shape: [usize; 2]) -> Result<Array2<f32>> {
        let values = self.values(name, &shape)?;
        Array2::from_shape_vec(shape, values).map_err(|_| self.misshapen(name, &shape))
    }

    /// Takes out a matrix with any number of rows.
    pub(super) fn rows(&mut self, name: &str, width: usize) -> Result<Array2<f32>> {
        let rows = self.tensors.get(name).and_then(|tensor| tensor.shape.first()).copied().unwrap_or_default();
        self.matrix(name, [rows, width])
    }

    fn values(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        match self.tensors.remove(name) {
            Some(tensor) if tensor.shape == shape => Ok(tensor.values),
            Some(_) => Err(self.misshapen(name, shape)),
            None => Err(refused(&self.file, format!("there is no tensor {name}, which config.json asks for"))),
        }
    }

    fn misshapen(&self, name: &str, shape: &[usize]) -> Error {
        refused(&self.file, format!("the tensor {name} does not have the shape {shape:?}, which config.json asks for"))
    }
}

impl Source<'_> {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.reader.read_exact(bytes).map_err(|error| match error.kind() {
            IoErrorKind::UnexpectedEof => refused(self.path, "the file is cut short: download it again"),
            _ => unreadable(self.path, error),
        })?;
        self.hash.update(bytes);
        Ok(())
    }

    fn take(&mut self, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }
}

/// Decodes little-endian floating-point numbers; `None` for other types.
fn floats(dtype: Dtype, bytes: &[u8]) -> Option<Vec<f32>> {
    let halves = || bytes.as_chunks::<2>().0.iter();
    match dtype {
        Dtype::F32 => Some(bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()),
        Dtype::F16 => Some(halves().map(|bytes| f16::from_le_bytes(*bytes).to_f32()).collect()),
        Dtype::BF16 => Some(halves().map(|bytes| bf16::from_le_bytes(*bytes).to_f32()).collect()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use memory_core::ErrorKind;
    use tempfile::TempDir;

    use super::*;

    /// Reads a file with this header, followed by these bytes.
    fn read(header: &str, data: &[u8]) -> Result<Weights> {
        let folder = TempDir::new().expect("a folder");
        let file = folder.path().join("model.safetensors");
        let content = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat();
        fs::write(&file, content).expect("written");
        Weights::read(&file)
    }

    const HEADER: &str = r#"{"__metadata__":{"format":"pt"},"bert.a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},
        "b":{"dtype":"F16","shape":[1],"data_offsets":[8,10]},"c":{"dtype":"BF16","shape":[1],"data_offsets":[10,12]},
        "d":{"dtype":"I64","shape":[1],"data_offsets":[12,20]}}"#;

    fn data() -> Vec<u8> {
        let (a, b, c) = ([1.5_f32, -2.0], f16::from_f32(0.25), bf16::from_f32(-8.0));
        [&a[0].to_le_bytes()[..], &a[1].to_le_bytes(), &b.to_le_bytes(), &c.to_le_bytes(), &7_i64.to_le_bytes()]
            .concat()
    }

    #[test]
    fn tensors_are_read_by_name_and_shape() {
        let mut weights = read(HEADER, &data()).expect("weights");
        assert_eq!(weights.matrix("a", [1, 2]).expect("a matrix"), ndarray::array![[1.5, -2.0]]);
        assert_eq!(weights.vector("b", 1).expect("a vector"), ndarray::array![0.25]);
        assert_eq!(weights.vector("c", 1).expect("a vector"), ndarray::array![-8.0]);
        for (name, told) in [("d", "there is no tensor d"), ("a", "there is no tensor a")] {
            let error = weights.vector(name, 1).expect_err("no such tensor");
            assert!(error.kind() == ErrorKind::InvalidInput && error.message().contains(told), "{error}");
        }
        let mut weights = read(HEADER, &data()).expect("weights");
        let error = weights.matrix("a", [2, 2]).expect_err("another shape");
        assert!(error.message().contains("the tensor a does not have the shape [2, 2]"), "{error}");
    }

    #[test]
    fn the_digest_is_that_of_the_file() {
        let content = [&(HEADER.len() as u64).to_le_bytes(), HEADER.as_bytes(), &data()].concat();
        let expected: [u8; 32] = Sha256::digest(content).into();
        assert_eq!(read(HEADER, &data()).expect("weights").digest, expected);
    }

    #[test]
    fn what_is_no_whole_file_is_refused() {
        let cut = &data()[..19];
        let long = [data(), vec![0]].concat();
        let gap = HEADER.replace("[8,10]", "[9,11]");
        for (header, data) in [(HEADER, cut), (HEADER, &long), (&gap, &data()), ("{", &[]), ("[]", &[])] {
            let Err(error) = read(header, data) else { panic!("read {header}") };
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.message().contains("download it again"), "{error}");
        }
        let folder = TempDir::new().expect("a folder");
        let file = folder.path().join("model.safetensors");
        for content in [&b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"[..], b"abc", &[255; 9]] {
            fs::write(&file, content).expect("written");
            let Err(error) = Weights::read(&file) else { panic!("read {content:?}") };
            assert!(error.message().contains("cut short"), "{error}");
        }
    }
}
