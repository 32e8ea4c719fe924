// A whole model in a few kilobytes: a Llama of one layer with seeded random weights, written as GGUF.
// Small enough that a thousand generations take seconds, real enough that nothing is faked.

const HIDDEN = 32;
const HEADS = 2;
const FEED_FORWARD = 64;

/** Ids of the special tokens, after the 256 bytes. */
export const BEGIN = 256;
export const END = 257;
/** Scores of a position. */
export const VOCABULARY = 258;
/** Positions. */
export const CONTEXT = 128;

const TEMPLATE =
  "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";

// Numbers of GGUF's value types.
const [U32, F32, BOOL, STRING, ARRAY, I32] = [4, 6, 7, 8, 9, 5];

/** The file. `metadata` adds keys or, with undefined, leaves some out. */
export function tiny(metadata = {}) {
  return write(describe(metadata), TENSORS);
}

/** The same in `count` files, as `gguf-split` writes them. */
export function tinyParts(count) {
  return Array.from({ length: count }, (_, part) => {
    const split = {
      "split.no": [U32, part],
      "split.count": [U32, count],
      "split.tensors.count": [U32, TENSORS.length],
    };
    const tensors = TENSORS.filter((_, i) => Math.floor((i * count) / TENSORS.length) === part);
    return write(part === 0 ? describe(split) : Object.entries(split), tensors);
  });
}

/** The value of `tokenizer.ggml.tokens`; `change` may give tokens other texts. */
export function vocabulary(change = (tokens) => tokens) {
  return [ARRAY, [STRING, change([...byteAlphabet(), "<begin>", "<end>"])]];
}

const KEY_VALUE = HIDDEN / HEADS;
const TENSORS = [
  ["token_embd.weight", VOCABULARY, HIDDEN],
  ["blk.0.attn_norm.weight", 1, HIDDEN],
  ["blk.0.attn_q.weight", HIDDEN, HIDDEN],
  ["blk.0.attn_k.weight", KEY_VALUE, HIDDEN],
  ["blk.0.attn_v.weight", KEY_VALUE, HIDDEN],
  ["blk.0.attn_output.weight", HIDDEN, HIDDEN],
  ["blk.0.ffn_norm.weight", 1, HIDDEN],
  ["blk.0.ffn_gate.weight", FEED_FORWARD, HIDDEN],
  ["blk.0.ffn_up.weight", FEED_FORWARD, HIDDEN],
  ["blk.0.ffn_down.weight", HIDDEN, FEED_FORWARD],
  ["output_norm.weight", 1, HIDDEN],
];

function describe(metadata) {
  return Object.entries({
    "general.architecture": [STRING, "llama"],
    "general.name": [STRING, "tiny"],
    "llama.context_length": [U32, CONTEXT],
    "llama.embedding_length": [U32, HIDDEN],
    "llama.block_count": [U32, 1],
    "llama.feed_forward_length": [U32, FEED_FORWARD],
    "llama.attention.head_count": [U32, HEADS],
    "llama.attention.head_count_kv": [U32, 1],
    "llama.attention.layer_norm_rms_epsilon": [F32, 1e-5],
    "llama.rope.dimension_count": [U32, HIDDEN / HEADS],
    "llama.rope.freq_base": [F32, 10000],
    "llama.vocab_size": [U32, VOCABULARY],
    "tokenizer.ggml.model": [STRING, "gpt2"],
    "tokenizer.ggml.pre": [STRING, "gpt-2"],
    "tokenizer.ggml.tokens": vocabulary(),
    "tokenizer.ggml.token_type": [ARRAY, [I32, [...Array(256).fill(1), 3, 3]]],
    "tokenizer.ggml.merges": [ARRAY, [STRING, []]],
    "tokenizer.ggml.bos_token_id": [U32, BEGIN],
    "tokenizer.ggml.eos_token_id": [U32, END],
    "tokenizer.ggml.add_bos_token": [BOOL, false],
    "tokenizer.chat_template": [STRING, TEMPLATE],
    ...metadata,
  }).filter(([, value]) => value !== undefined);
}

/** Each tensor's numbers depend on its place among all, so that parts hold the same as the whole. */
function write(entries, tensors) {
  const out = new Writer();
  out.bytes(Buffer.from("GGUF")).u32(3).u64(tensors.length).u64(entries.length);
  for (const [key, [type, value]] of entries) out.string(key).u32(type).value(type, value);
  let offset = 0;
  for (const [name, rows, columns] of tensors) {
    out.string(name);
    if (rows === 1) out.u32(1).u64(columns);
    else out.u32(2).u64(columns).u64(rows);
    out.u32(0).u64(offset);
    offset += rows * columns * 4;
  }
  out.align(32);
  const random = normal(1);
  for (const tensor of TENSORS) {
    const [name, rows, columns] = tensor;
    const isNorm = name.endsWith("norm.weight");
    if (!tensors.includes(tensor)) {
      if (!isNorm) for (let i = 0; i < rows * columns; i += 1) random();
      continue;
    }
    for (let i = 0; i < rows * columns; i += 1) out.f32(isNorm ? 1 : 0.3 * random());
  }
  return out.done();
}

/** GPT-2's printable stand-ins for the 256 bytes, by byte. */
function byteAlphabet() {
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => {
    const printable =
      (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || (byte >= 174 && byte <= 255);
    return String.fromCodePoint(printable ? byte : next++);
  });
}

/** Normally distributed numbers: mulberry32 and the sum of uniforms. */
function normal(seed) {
  let state = seed;
  const uniform = () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  return () => Array.from({ length: 12 }, uniform).reduce((sum, x) => sum + x, -6);
}

class Writer {
  #parts = [];
  #length = 0;

  bytes(buffer) {
    this.#parts.push(buffer);
    this.#length += buffer.length;
    return this;
  }

  #number(size, write) {
    const buffer = Buffer.alloc(size);
    write(buffer);
    return this.bytes(buffer);
  }

  u32(value) {
    return this.#number(4, (buffer) => buffer.writeUInt32LE(value));
  }

  u64(value) {
    return this.#number(8, (buffer) => buffer.writeBigUInt64LE(BigInt(value)));
  }

  f32(value) {
    return this.#number(4, (buffer) => buffer.writeFloatLE(value));
  }

  string(text) {
    const buffer = Buffer.from(text);
    return this.u64(buffer.length).bytes(buffer);
  }

  value(type, value) {
    switch (type) {
      case U32:
      case I32:
        return this.u32(value);
      case F32:
        return this.f32(value);
      case BOOL:
        return this.bytes(Buffer.from([value ? 1 : 0]));
      case STRING:
        return this.string(value);
      default: {
        const [itemType, items] = value;
        this.u32(itemType).u64(items.length);
        for (const item of items) this.value(itemType, item);
        return this;
      }
    }
  }

  align(multiple) {
    return this.bytes(Buffer.alloc((multiple - (this.#length % multiple)) % multiple));
  }

  done() {
    return Buffer.concat(this.#parts);
  }
}
