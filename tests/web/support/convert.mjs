// A Llama's GGUF file as the Hugging Face checkpoint that it was made of: the same numbers in f32, under the other
// names, in shards. It shares no code with the package, so that a mistake there is not made here too.
//
// Only what SmolLM2's file needs: byte pairs cut as the family "smollm" cuts, and weights in F32, Q4_1 and Q8_0.
import assert from "node:assert/strict";
import { closeSync, fstatSync, openSync, readSync } from "node:fs";

/** Bytes of weights in a shard; a larger tensor has one to itself. */
const SHARD = 150e6;

/** The text of a token that byte pairs do not cut: GGUF's type "control". */
const CONTROL = 3;

/**
 * The checkpoint of the GGUF file at `path`: `small`, its JSON files by name, and `shards`, by name the `size`
 * in bytes and `pieces()`, which makes the bytes anew each time, a tensor at once. `close` ends reading.
 */
export function convert(path) {
  const file = openSync(path);
  const { values, tensors, data } = readHeader(new Reader(file));
  const config = configOf(values);
  const shards = {};
  const weight_map = {};
  const groups = grouped(tensors);
  for (const [i, group] of groups.entries()) {
    const number = (n) => String(n).padStart(5, "0");
    const name = `model-${number(i + 1)}-of-${number(groups.length)}.safetensors`;
    shards[name] = shard(group, (tensor) => numbers(file, data, tensor, config));
    for (const tensor of group) weight_map[rename(tensor.name)] = name;
  }
  const small = {
    "config.json": config,
    "generation_config.json": {
      bos_token_id: config.bos_token_id,
      eos_token_id: config.eos_token_id,
    },
    "tokenizer.json": tokenizerOf(values),
    "tokenizer_config.json": tokenizerConfigOf(values),
    "model.safetensors.index.json": { metadata: {}, weight_map },
  };
  for (const [name, value] of Object.entries(small))
    small[name] = Buffer.from(JSON.stringify(value));
  return { small, shards, close: () => closeSync(file) };
}

function configOf(values) {
  const llama = (key) => values[`llama.${key}`];
  return {
    architectures: ["LlamaForCausalLM"],
    model_type: "llama",
    hidden_act: "silu",
    hidden_size: llama("embedding_length"),
    intermediate_size: llama("feed_forward_length"),
    max_position_embeddings: llama("context_length"),
    num_attention_heads: llama("attention.head_count"),
    num_hidden_layers: llama("block_count"),
    num_key_value_heads: llama("attention.head_count_kv"),
    rms_norm_eps: llama("attention.layer_norm_rms_epsilon"),
    rope_theta: llama("rope.freq_base"),
    vocab_size: llama("vocab_size"),
    tie_word_embeddings: true,
    bos_token_id: values["tokenizer.ggml.bos_token_id"],
    eos_token_id: values["tokenizer.ggml.eos_token_id"],
  };
}

function tokenizerOf(values) {
  assert.equal(values["tokenizer.ggml.pre"], "smollm");
  const tokens = values["tokenizer.ggml.tokens"];
  const types = values["tokenizer.ggml.token_type"];
  const added = {
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
    special: true,
  };
  const bytes = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true };
  return {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: tokens.flatMap((content, id) =>
      types[id] === CONTROL ? [{ id, content, ...added }] : [],
    ),
    normalizer: null,
    pre_tokenizer: {
      type: "Sequence",
      pretokenizers: [{ type: "Digits", individual_digits: true }, bytes],
    },
    post_processor: null,
    decoder: bytes,
    model: {
      type: "BPE",
      vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
      merges: values["tokenizer.ggml.merges"],
    },
  };
}

function tokenizerConfigOf(values) {
  const token = (name) =>
    values["tokenizer.ggml.tokens"][values[`tokenizer.ggml.${name}_token_id`]];
  return {
    tokenizer_class: "GPT2Tokenizer",
    bos_token: token("bos"),
    eos_token: token("eos"),
    chat_template: values["tokenizer.chat_template"],
  };
}

/** Hugging Face's name of a tensor. */
function rename(name) {
  const [, layer, part] = /^blk\.(\d+)\.(\w+)\.weight$/.exec(name) ?? [];
  const parts = {
    attn_norm: "input_layernorm",
    attn_q: "self_attn.q_proj",
    attn_k: "self_attn.k_proj",
    attn_v: "self_attn.v_proj",
    attn_output: "self_attn.o_proj",
    ffn_norm: "post_attention_layernorm",
    ffn_gate: "mlp.gate_proj",
    ffn_up: "mlp.up_proj",
    ffn_down: "mlp.down_proj",
  };
  if (layer !== undefined) return `model.layers.${layer}.${parts[part]}.weight`;
  const others = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
  };
  return others[name] ?? assert.fail(name);
}

const bytesOf = ({ shape }) => 4 * shape.reduce((a, b) => a * b);

/** The tensors in their order, dealt out to shards. */
function grouped(tensors) {
  const groups = [];
  let room = 0;
  for (const tensor of tensors) {
    if (bytesOf(tensor) > room) {
      groups.push([]);
      room = SHARD;
    }
    groups.at(-1).push(tensor);
    room -= bytesOf(tensor);
  }
  return groups;
}

/** A safetensors file of these tensors, whose bytes `read` makes. */
function shard(tensors, read) {
  let end = 0;
  const header = {};
  for (const tensor of tensors) {
    const data_offsets = [end, (end += bytesOf(tensor))];
    header[rename(tensor.name)] = { dtype: "F32", shape: tensor.shape, data_offsets };
  }
  const json = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  return {
    size: 8 + json.length + end,
    *pieces() {
      yield length;
      yield json;
      for (const tensor of tensors) yield read(tensor);
    },
  };
}

/** A tensor's numbers in f32, in the order that Hugging Face has them. */
function numbers(file, data, { name, shape, type, offset }, config) {
  const { block, bytes, values } = FORMATS[type];
  const count = shape.reduce((a, b) => a * b);
  const stored = Buffer.alloc((count / block) * bytes);
  assert.equal(readSync(file, stored, 0, stored.length, data + offset), stored.length);
  const all = new Float32Array(count);
  for (let i = 0; i < count / block; i += 1) values(stored, i * bytes, all, i * block);
  const heads = {
    attn_q: config.num_attention_heads,
    attn_k: config.num_key_value_heads,
  }[name.split(".")[2]];
  return Buffer.from((heads ? halves(all, shape, heads) : all).buffer);
}

/** GGUF keeps the two rows of a rotated pair of a head side by side, Hugging Face half a head apart. */
function halves(all, [rows, columns], heads) {
  const out = new Float32Array(all.length);
  const size = rows / heads;
  for (let row = 0; row < rows; row += 1) {
    const [head, at] = [Math.floor(row / size), row % size];
    const to = head * size + (at % 2) * (size / 2) + Math.floor(at / 2);
    out.set(all.subarray(row * columns, (row + 1) * columns), to * columns);
  }
  return out;
}

/** By GGUF's number of a format: values and bytes of a block, and how its values are read. */
const FORMATS = {
  0: { block: 1, bytes: 4, values: (from, at, to, i) => (to[i] = from.readFloatLE(at)) },
  3: {
    block: 32,
    bytes: 20,
    values: (from, at, to, i) => {
      const [scale, minimum] = [half(from, at), half(from, at + 2)];
      for (let k = 0; k < 16; k += 1) {
        const byte = from[at + 4 + k];
        to[i + k] = Math.fround(scale * (byte & 15)) + minimum;
        to[i + 16 + k] = Math.fround(scale * (byte >> 4)) + minimum;
      }
    },
  },
  8: {
    block: 32,
    bytes: 34,
    values: (from, at, to, i) => {
      const scale = half(from, at);
      for (let k = 0; k < 32; k += 1) to[i + k] = scale * from.readInt8(at + 2 + k);
    },
  },
};

function half(from, at) {
  const bits = from.readUInt16LE(at);
  const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023];
  assert.ok(exponent < 31, "a scale is finite");
  const size = exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25);
  return bits >> 15 ? -size : size;
}

/** The metadata and the tensors of a GGUF file, and where their data begins. */
function readHeader(reader) {
  assert.equal(reader.bytes(4).toString(), "GGUF");
  assert.equal(reader.value(4), 3);
  const [tensorCount, valueCount] = [reader.value(10), reader.value(10)];
  const values = {};
  for (let i = 0; i < valueCount; i += 1) values[reader.value(8)] = reader.value(reader.value(4));
  const tensors = [];
  for (let i = 0; i < tensorCount; i += 1) {
    const name = reader.value(8);
    const shape = Array.from({ length: reader.value(4) }, () => reader.value(10)).reverse();
    tensors.push({ name, shape, type: reader.value(4), offset: reader.value(10) });
  }
  return { values, tensors, data: Math.ceil(reader.at / 32) * 32 };
}

class Reader {
  at = 0;
  #all;

  constructor(file) {
    this.#all = Buffer.alloc(Math.min(fstatSync(file).size, 4e6));
    readSync(file, this.#all, 0, this.#all.length, 0);
  }

  bytes(count) {
    assert.ok(
      this.at + count <= this.#all.length,
      "the header is longer than what is read of the file",
    );
    return this.#all.subarray(this.at, (this.at += count));
  }

  /** A value of GGUF's type. */
  value(type) {
    switch (type) {
      case 4:
        return this.bytes(4).readUInt32LE();
      case 5:
        return this.bytes(4).readInt32LE();
      case 6:
        return this.bytes(4).readFloatLE();
      case 7:
        return this.bytes(1)[0] === 1;
      case 8:
        return this.bytes(this.value(10)).toString();
      case 9: {
        const item = this.value(4);
        return Array.from({ length: this.value(10) }, () => this.value(item));
      }
      case 10:
        return Number(this.bytes(8).readBigUInt64LE());
      default:
        return assert.fail(`type ${type}`);
    }
  }
}
