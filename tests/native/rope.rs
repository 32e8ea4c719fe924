//! Rotary embedding: frequencies of every scaling, by numbers from Hugging Face's formulas.

use std::collections::BTreeMap;

use decant::{
    model::{Factors, Graph, GraphOptions, Rope, Scaling},
    ops::Pairing,
    weights::{Format, Metadata},
};

use crate::support::{checkpoint, convert};

fn rope(dims: usize, scaling: Scaling) -> Rope {
    Rope {
        theta: 10_000.0,
        dims,
        pairing: Pairing::Halves,
        scaling,
    }
}

fn close(found: f32, expected: f64) {
    let off = (f64::from(found) - expected).abs();
    assert!(off <= 1e-5 * expected.abs(), "{found}, expected {expected}");
}

/// The rope of the golden checkpoint `name` with some keys of its `rope_parameters` set.
fn read(name: &str, changes: &[(&str, serde_json::Value)]) -> decant::error::Result<Rope> {
    let mut config: serde_json::Value =
        serde_json::from_slice(&checkpoint::files(name, "config.json").config).unwrap();
    for (key, value) in changes {
        config["rope_parameters"][key] = value.clone();
    }
    let metadata = Metadata::from_json("config.json", config.to_string().as_bytes())?;
    let (_, config) = decant::model::describe(&metadata, Format::Checkpoint)?;
    Ok(config.ropes[0].clone())
}

/// The table of `rope` for some positions, whose factors are not in tensors.
fn table(rope: &Rope, positions: usize) -> Vec<f32> {
    let mut table = Vec::new();
    rope.table(positions, &[], &mut |first, values| {
        assert_eq!(first, table.len());
        table.extend_from_slice(values);
        Ok(())
    })
    .unwrap();
    table
}

/// What cosines and sines of a Yarn rope are multiplied by.
fn attention(rope: &Rope) -> f32 {
    match rope.scaling {
        Scaling::Yarn { attention, .. } => attention,
        _ => panic!("{rope:?}"),
    }
}

#[test]
fn llama3_blends_middle_frequencies() {
    let scaled = rope(
        16,
        Scaling::Llama3 {
            factor: 8.0,
            low: 1.0,
            high: 4.0,
            original: 64,
        },
    );
    let (plain, scaled) = (rope(16, Scaling::None).frequencies(), scaled.frequencies());
    let expected = [1.0, 0.77281, 0.13042, 0.125, 0.125, 0.125, 0.125, 0.125];
    for ((plain, scaled), expected) in plain.iter().zip(&scaled).zip(expected) {
        assert!(
            (scaled / plain - expected).abs() < 1e-5,
            "{}",
            scaled / plain
        );
    }
}

#[test]
fn yarn_scales_values_once() {
    for (factor, expected) in [(4.0, 1.13863), (16.0, 1.27726), (64.0, 1.41589)] {
        let found = attention(&read("llama-yarn", &[("factor", factor.into())]).unwrap());
        close(found, expected);
        let given = [("factor", factor.into()), ("attention_factor", 1.0.into())];
        assert_eq!(attention(&read("llama-yarn", &given).unwrap()), 1.0);
        let pair = [
            ("factor", factor.into()),
            ("mscale", 1.0.into()),
            ("mscale_all_dim", 1.0.into()),
        ];
        assert_eq!(attention(&read("llama-yarn", &pair).unwrap()), 1.0);
    }
    let rope = read("llama-yarn", &[]).unwrap();
    let table = table(&rope, 2);
    // The cosine of no angle, and the fastest pair at position 1, which stays as it is.
    close(table[0], f64::from(attention(&rope)));
    close(table[rope.dims], f64::from(attention(&rope)) * 1f64.cos());
}

#[test]
fn linear_divides_positions() {
    let (plain, half) = (rope(12, Scaling::None), rope(12, Scaling::Linear(2.0)));
    for (plain, half) in plain.frequencies().iter().zip(half.frequencies()) {
        assert_eq!(plain / 2.0, half);
    }
    // The old key of GGUF files says the same as type and factor.
    let mut checkpoint = convert::gguf(&checkpoint::files("llama-linear", "config.json"), None);
    let described = |checkpoint: &crate::support::golden::Checkpoint| {
        let graph = Graph::from_index(checkpoint.index(), GraphOptions::default()).unwrap();
        graph.config.ropes[0].scaling.clone()
    };
    assert_eq!(described(&checkpoint), Scaling::Linear(2.5));
    let metadata: &mut BTreeMap<_, _> = &mut checkpoint.metadata;
    metadata.remove("llama.rope.scaling.type");
    let factor = metadata.remove("llama.rope.scaling.factor").unwrap();
    assert_eq!(described(&checkpoint), Scaling::None);
    checkpoint
        .metadata
        .insert("llama.rope.scale_linear".into(), factor);
    assert_eq!(described(&checkpoint), Scaling::Linear(2.5));
}

/// Far from the beginning, as well: the angle is rounded once, the circle goes round in more digits than a shader's.
#[test]
fn angles_are_right_at_every_position() {
    let rope = rope(8, Scaling::None);
    let table = table(&rope, 8192);
    for position in [3, 101, 4095, 8191] {
        let row = &table[position * 8..][..8];
        for pair in 0..4 {
            let angle = position as f64 * 10_000f64.powf(-(pair as f64) / 4.0);
            // A unit of f32 in the frequency, and one in the product.
            let allowed = angle * f64::from(f32::EPSILON) + f64::from(f32::EPSILON);
            for (found, expected) in [(row[pair], angle.cos()), (row[pair + 4], angle.sin())] {
                let off = (f64::from(found) - expected).abs();
                assert!(off <= allowed, "{position}, {pair}: {found}, {expected}");
            }
        }
    }
}

#[test]
fn longrope_has_two_sets_of_angles() {
    let long = rope(
        4,
        Scaling::Long {
            short: Factors::Values(vec![1.0, 2.0]),
            long: Factors::Values(vec![4.0, 5.0]),
            original: 3,
            attention: 1.5,
        },
    );
    let table = table(&long, 6);
    assert_eq!((long.sets(), table.len()), (2, 2 * 6 * 4));
    close(table[3 * 4], 1.5 * 3f64.cos());
    close(table[(6 + 3) * 4], 1.5 * 0.75f64.cos());
    close(table[(6 + 3) * 4 + 3], 1.5 * (0.03f64 / 5.0).sin());
}

#[test]
fn what_is_not_known_is_refused_by_name() {
    type Case<'a> = (&'a str, &'a [(&'a str, serde_json::Value)], &'a str);
    let cases: [Case; 5] = [
        ("llama", &[("rope_type", "dynamic".into())], "dynamic"),
        ("llama", &[("rope_type", "linear".into())], "factor"),
        ("llama-linear", &[("factor", 0.0.into())], "factor"),
        (
            "llama-llama3",
            &[("low_freq_factor", serde_json::Value::Null)],
            "low_freq_factor",
        ),
        (
            "phi3",
            &[("long_factor", serde_json::json!([1.0, 2.0]))],
            "long_factor",
        ),
    ];
    for (name, changes, named) in cases {
        let error = read(name, changes).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
}
