"""Writes the seeds of the fuzz targets: small sound files of every kind.

    python3 -m pip install gguf==0.19.0 safetensors numpy
    python3 fuzz/seeds.py
"""

import json
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGUFWriter, quants
from safetensors.numpy import save

HERE = Path(__file__).parent
GOLDENS = HERE.parent / "tests/fixtures/goldens/models"
random = np.random.default_rng(1)


def put(target: str, name: str, data: bytes) -> None:
    path = HERE / "seeds" / target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def byte_level() -> list[str]:
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = [b for b in range(256) if b not in kept]
    chars = {b: chr(b) for b in kept} | {b: chr(256 + i) for i, b in enumerate(other)}
    return [chars[b] for b in range(256)]


def gguf(name: str, kind: Type, sentencepiece: bool) -> None:
    """A Llama of one layer, 32 wide, with a vocabulary of either kind."""
    path = HERE / "seeds" / "gguf" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    file = GGUFWriter(path, "llama")
    file.add_context_length(16)
    file.add_embedding_length(32)
    file.add_block_count(1)
    file.add_feed_forward_length(32)
    file.add_head_count(2)
    file.add_head_count_kv(1)
    file.add_layer_norm_rms_eps(1e-5)
    file.add_rope_dimension_count(16)
    if sentencepiece:
        tokens = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(8)), *"▁abHelo", "He", "lo", "llo"]
        file.add_tokenizer_model("llama")
        file.add_token_scores([float(-i) for i in range(len(tokens))])
        file.add_token_types([2, 3, 3] + [6] * 8 + [1] * (len(tokens) - 11))
    else:
        tokens = [*byte_level(), "he", "ll", "<s>"]
        file.add_tokenizer_model("gpt2")
        file.add_tokenizer_pre("llama-bpe")
        file.add_token_merges(["h e", "l l"])
        file.add_token_types([1] * (len(tokens) - 1) + [3])
    file.add_token_list(tokens)
    file.add_bos_token_id(1)
    file.add_chat_template("{{ bos_token }}{{ messages[0].content }}")

    def tensor(name, *shape):
        values = random.normal(0, 1, shape).astype(np.float32)
        if len(shape) == 1 or kind == Type.F32:
            file.add_tensor(name, values)
        else:
            file.add_tensor(name, quants.quantize(values, kind), raw_dtype=kind)

    tensor("token_embd.weight", len(tokens), 32)
    tensor("output_norm.weight", 32)
    for part, rows in [("attn_q", 32), ("attn_k", 16), ("attn_v", 16), ("attn_output", 32),
                       ("ffn_gate", 32), ("ffn_up", 32), ("ffn_down", 32)]:
        tensor(f"blk.0.{part}.weight", rows, 32)
    tensor("blk.0.attn_norm.weight", 32)
    tensor("blk.0.ffn_norm.weight", 32)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


def main() -> None:
    gguf("llama-bpe-q4_0.gguf", Type.Q4_0, sentencepiece=False)
    gguf("sentencepiece-q8_0.gguf", Type.Q8_0, sentencepiece=True)
    put("safetensors", "two.safetensors", save({
        "a.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones(4, np.float16)}))
    put("safetensors", "empty.safetensors", save({}))
    put("safetensors", "index.json", json.dumps(
        {"metadata": {"total_size": 1}, "weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}},
    ).encode())
    for model in ["llama", "llama-tied", "gemma3", "gpt2"]:
        files = [(GOLDENS / model / name).read_bytes() for name in ("tokenizer.json", "tokenizer_config.json")]
        put("tokenizer", f"{model}.json", b"\0".join(json.dumps(json.loads(f), ensure_ascii=False,
                                                     separators=(",", ":")).encode() for f in files))
    small = {"version": "1.0", "added_tokens": [{"id": 4, "content": "<s>", "special": True}],
             "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True},
                               {"type": "Punctuation", "behavior": "Isolated"}, {"type": "WhitespaceSplit"}]},
             "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]},
             "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
             "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                       "max_input_chars_per_word": 20, "vocab": {"[UNK]": 0, "he": 1, "##llo": 2, "##l": 3}}}
    put("tokenizer", "word-piece.json", json.dumps(small).encode())
    unigram = {"version": "1.0", "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"},
               "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"},
               "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": False,
                         "vocab": [["<unk>", 0.0], ["▁", -1.0], ["l", -2.0], ["ll", -2.5], ["o", -3.0]]}}
    put("tokenizer", "unigram.json", json.dumps(unigram, ensure_ascii=False).encode())
    for path in sorted(GOLDENS.iterdir()):
        if (path / "config.json").exists():
            config = json.loads((path / "config.json").read_bytes())
            put("config", f"{path.name}.json", json.dumps(config, separators=(",", ":")).encode())


main()
