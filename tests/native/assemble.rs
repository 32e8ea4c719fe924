//! Weights put together from tensors: whatever the parts and the cuts, the values are where they belong.

use decant::{
    tensor::{DType, WeightSpec, dequantise, quantise},
    weights::{Assembler, Index, Part, Recipe, TensorInfo, TensorStream},
};

use crate::support::random::Random;

/// Tensors with made-up values, one after another in a file.
struct File {
    index: Index,
    bytes: Vec<u8>,
    values: Vec<Vec<f32>>,
}

fn file(dtype: DType, shapes: &[(usize, usize)]) -> File {
    let mut random = Random(7);
    let mut file = File {
        index: Index::default(),
        bytes: Vec::new(),
        values: Vec::new(),
    };
    for &(rows, columns) in shapes {
        let blocks = quantise(dtype, &random.values(rows * columns, 1.0)).unwrap();
        let mut values = vec![0.0; rows * columns];
        dequantise(dtype, &blocks, &mut values);
        file.index.tensors.push(TensorInfo {
            spec: spec(dtype, rows, columns),
            offset: file.bytes.len() as u64,
        });
        file.bytes.extend(blocks);
        file.values.push(values);
    }
    file
}

fn spec(dtype: DType, rows: usize, columns: usize) -> WeightSpec {
    WeightSpec {
        name: "w".into(),
        dtype,
        rows,
        columns,
    }
}

fn part(tensor: usize, from: usize, len: usize, at: usize) -> Part {
    Part {
        tensor,
        from,
        len,
        at,
        transposed: false,
    }
}

/// The blocks of each weight, checked for what an executor may be given.
fn assemble(file: &File, weights: &[(WeightSpec, Recipe)], piece: usize) -> Vec<Vec<u8>> {
    let numbered = weights.iter().enumerate();
    let numbered = numbered.map(|(i, (spec, recipe))| (i, spec, recipe));
    let mut assembler = Assembler::new(&file.index.tensors, numbered);
    let mut stream = TensorStream::new(&file.index);
    stream.set_grains(|tensor| assembler.grain(tensor));
    let mut made: Vec<_> = weights.iter().map(|(s, _)| vec![0; s.bytes()]).collect();
    let mut written = vec![0; weights.len()];
    for piece in file.bytes.chunks(piece) {
        stream
            .push(piece, &mut |tensor, first, blocks| {
                assembler.push(tensor, first, blocks, &mut |weight, first, blocks| {
                    let spec = &weights[weight].0;
                    let size = spec.dtype.block_bytes();
                    let count = blocks.len() / size;
                    assert!(first.is_multiple_of(2) && count > 0, "{first} {count}");
                    assert!(count.is_multiple_of(2) || first + count == spec.blocks());
                    made[weight][first * size..][..blocks.len()].copy_from_slice(blocks);
                    written[weight] += count;
                    Ok(())
                })
            })
            .unwrap();
    }
    stream.finish().unwrap();
    assembler.finish().unwrap();
    for ((spec, _), written) in weights.iter().zip(written) {
        assert_eq!(written, spec.blocks(), "every block once");
    }
    made
}

const PLAIN: [DType; 3] = [DType::F32, DType::F16, DType::BF16];
const PIECES: [usize; 5] = [1, 3, 64, 1000, 1 << 20];

#[test]
fn slices_of_odd_sizes_meet_at_half_words() {
    for dtype in PLAIN {
        // A fused layer of 3 + 2 + 2 outputs of 5 inputs, and two experts whose files come in reverse.
        let file = file(dtype, &[(7, 5), (1, 7), (3, 3), (3, 3)]);
        let slice = |from: usize, len: usize| {
            let recipe = Recipe {
                parts: vec![part(0, from * 5, len * 5, 0)],
                add_one: false,
            };
            (spec(dtype, len, 5), recipe)
        };
        let interleaved = Recipe {
            parts: vec![part(1, 5, 2, 0), part(1, 0, 1, 2), part(1, 3, 2, 3)],
            add_one: false,
        };
        let experts = Recipe {
            parts: vec![part(3, 0, 9, 0), part(2, 0, 9, 9)],
            add_one: false,
        };
        let weights = [
            slice(0, 3),
            slice(3, 2),
            slice(5, 2),
            (spec(dtype, 1, 5), interleaved),
            (spec(dtype, 6, 3), experts),
        ];
        let [fused, vector, one, two] = &file.values[..] else {
            unreachable!()
        };
        let expected = [
            fused[..15].to_vec(),
            fused[15..25].to_vec(),
            fused[25..].to_vec(),
            vec![vector[5], vector[6], vector[0], vector[3], vector[4]],
            [&two[..], one].concat(),
        ];
        for piece in PIECES {
            let made = assemble(&file, &weights, piece);
            for (made, expected) in made.iter().zip(&expected) {
                assert_eq!(
                    made,
                    &quantise(dtype, expected).unwrap(),
                    "{dtype:?} {piece}"
                );
            }
        }
    }
}

#[test]
fn columns_become_rows() {
    for dtype in PLAIN {
        let file = file(dtype, &[(5, 7)]);
        let slice = |from: usize, len: usize| {
            let mut part = part(0, from, len, 0);
            part.transposed = true;
            let recipe = Recipe {
                parts: vec![part],
                add_one: false,
            };
            (spec(dtype, len, 5), recipe)
        };
        let weights = [slice(0, 3), slice(3, 4)];
        let column = |c: usize| (0..5).map(move |r| r * 7 + c);
        for piece in PIECES {
            let made = assemble(&file, &weights, piece);
            for (made, columns) in made.iter().zip([0..3, 3..7]) {
                let values: Vec<f32> = columns
                    .flat_map(column)
                    .map(|at| file.values[0][at])
                    .collect();
                assert_eq!(made, &quantise(dtype, &values).unwrap());
            }
        }
    }
}

#[test]
fn values_are_quantised_and_raised_on_the_way() {
    for dtype in PLAIN {
        let file = file(dtype, &[(3, 96), (1, 33), (32, 6)]);
        let quantised = |to: DType| {
            let parts = vec![part(0, 96, 192, 0)];
            let recipe = Recipe {
                parts,
                add_one: false,
            };
            (spec(to, 2, 96), recipe)
        };
        let raised = Recipe {
            parts: vec![part(1, 0, 33, 0)],
            add_one: true,
        };
        let mut turned = part(2, 1, 5, 0);
        turned.transposed = true;
        let turned = Recipe {
            parts: vec![turned],
            add_one: false,
        };
        let weights = [
            quantised(DType::Q8_0),
            quantised(DType::Q4_0),
            (spec(DType::F32, 1, 33), raised),
            (spec(DType::Q8_0, 5, 32), turned),
        ];
        let rows = &file.values[0][96..];
        let columns = (1..6).flat_map(|c| (0..32).map(move |r| r * 6 + c));
        let columns: Vec<f32> = columns.map(|at| file.values[2][at]).collect();
        let plus: Vec<f32> = file.values[1].iter().map(|x| x + 1.0).collect();
        let expected = [
            quantise(DType::Q8_0, rows).unwrap(),
            quantise(DType::Q4_0, rows).unwrap(),
            quantise(DType::F32, &plus).unwrap(),
            quantise(DType::Q8_0, &columns).unwrap(),
        ];
        for piece in PIECES {
            assert_eq!(assemble(&file, &weights, piece), expected, "{dtype:?}");
        }
    }
}
