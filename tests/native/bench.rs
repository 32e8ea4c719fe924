//! `decant bench` runs without a file and without a GPU, and writes what it prints.

use std::{env, fs, process::Command};

use serde_json::Value as Json;

fn run(arguments: &[&str]) -> (bool, String, String) {
    let run = Command::new(env!("CARGO_BIN_EXE_decant"))
        .arg("bench")
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (run.status.success(), text(run.stdout), text(run.stderr))
}

#[test]
fn every_section_is_measured_and_written() {
    let file = env::temp_dir().join(format!("decant-bench-{}.json", std::process::id()));
    let (ok, out, err) = run(&[
        "--device",
        "cpu",
        "--shape",
        "tiny",
        "--formats",
        "f32,q4_0",
        "--batch",
        "2",
        "--json",
        file.to_str().unwrap(),
    ]);
    assert!(ok, "{err}");
    let report: Json = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    fs::remove_file(&file).unwrap();
    for ceiling in ["read_bytes_per_second", "multiply_adds_per_second"] {
        assert!(report["ceilings"][ceiling].as_f64().unwrap() > 0.0);
    }
    let rows = |section: &str| report[section].as_array().unwrap().clone();
    let counts = ["matrices", "attention", "norm", "model Q4_0", "prediction"];
    let counts = counts.map(|section| (section, rows(section).len()));
    // Two formats by 1, 4, 8 and 512 rows and by a head, and against F32; four contexts; one row and many; three contexts with rates and a
    // ratio, a batch and its ratio, two prompts with rates and a ratio; two shapes in two formats.
    let expected = [2 * 5 + 2, 4, 2, 3 * 2 + 1 + 2 + 2 * 2 + 1, 4];
    assert_eq!(counts.map(|(_, count)| count), expected, "{counts:?}");
    for (section, _) in counts {
        assert!(out.contains(&format!("{section}: ")), "{out}");
        for row in rows(section) {
            let numbers = row.as_object().unwrap().values();
            let mut numbers = numbers.filter_map(Json::as_f64);
            assert!(numbers.all(|number| number > 0.0), "{section}: {row}");
        }
    }
}

#[test]
fn what_cannot_be_measured_is_refused() {
    for (arguments, message) in [
        (
            ["--shape", "2b"],
            "--shape \"2b\": allowed are 135m, 1b, 3b, tiny",
        ),
        (
            ["--formats", "f32,q9"],
            "--formats \"q9\": allowed are f32, f16",
        ),
        (
            ["--sections", "all"],
            "--sections \"all\": allowed are matrices",
        ),
        (["--device", "reference"], "bench measures webgpu or cpu"),
        (["--batch", "0"], "--batch"),
    ] {
        let (ok, _, err) = run(&arguments);
        assert!(!ok && err.contains(message), "{arguments:?}: {err}");
    }
}
