// The adapter's own ceilings as this browser lets them through, with the shaders that `decant bench` uses.

const GROUPS = 1024;
const ROUNDS = 64;
const DISPATCHES = 512;
const RUNS = 5;

/** Bytes read and multiply-adds in a second, and the seconds of a dispatch and of a round trip. */
export async function ceilings() {
  const adapter = await navigator.gpu?.requestAdapter({ powerPreference: "high-performance" });
  if (!adapter) throw new Error("this browser offers no WebGPU adapter");
  const device = await adapter.requestDevice();
  const source = async (name) => (await fetch(`/shaders/${name}.wgsl`)).text();
  const sources = [await source("measure_read"), await source("measure_multiply_add")];
  const found = { read: 0, multiply: 0, dispatch: Infinity, trip: Infinity };
  try {
    for (const lanes of [4, 8, 64]) {
      for (const NEIGHBOURS of [0, 1]) {
        const unit = GROUPS * lanes * 128;
        const bytes = Math.floor((64 << 20) / unit) * unit;
        const data = device.createBuffer({
          size: bytes,
          usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST,
        });
        const words = new Uint32Array(bytes / 4).map((_, i) => Math.imul(i, 0x9e3779b9));
        device.queue.writeBuffer(data, 0, words);
        const params = Uint32Array.of(bytes / 16, 0, 0, 0);
        const constants = { LANES: lanes, NEIGHBOURS };
        const kernel = await prepare(device, { code: sources[0], constants, params, data, lanes });
        const { seconds, out } = await time(kernel, GROUPS, 1);
        const sum = (list) => list.reduce((sum, x) => (sum + x) >>> 0, 0);
        if (sum(out) !== sum(words)) throw new Error("the adapter adds up wrongly");
        found.read = Math.max(found.read, bytes / seconds);
        data.destroy();
      }
      const params = (rounds) => {
        const words = Uint32Array.of(rounds, 0, 0, 0);
        new Float32Array(words.buffer).set([0.5, 1], 1);
        return words;
      };
      const constants = { LANES: lanes };
      const given = { code: sources[1], constants, lanes };
      const busy = await prepare(device, { ...given, params: params(ROUNDS) });
      const { seconds, out } = await time(busy, GROUPS, 1);
      if (new Float32Array(out.buffer).some((x) => x !== 24))
        throw new Error("the adapter multiplies wrongly");
      found.multiply = Math.max(found.multiply, (ROUNDS * 96 * GROUPS * lanes) / seconds);
      const idle = await prepare(device, { ...given, params: params(0) });
      const one = (await time(idle, 1, 1)).seconds;
      const many = (await time(idle, 1, DISPATCHES)).seconds;
      found.dispatch = Math.min(found.dispatch, Math.max(many - one, 0) / (DISPATCHES - 1));
      found.trip = Math.min(found.trip, one);
    }
  } finally {
    device.destroy();
  }
  const { vendor, architecture, description } = adapter.info;
  return {
    adapter: [vendor, architecture, description].filter(Boolean).join(", "),
    read_bytes_per_second: found.read,
    multiply_adds_per_second: found.multiply,
    dispatch_seconds: found.dispatch,
    round_trip_seconds: found.trip,
  };
}

async function prepare(device, { code, constants, params, data, lanes }) {
  const { STORAGE, UNIFORM, COPY_SRC, COPY_DST, MAP_READ } = GPUBufferUsage;
  const module = device.createShaderModule({ code });
  const compute = { module, entryPoint: "main", constants };
  const pipeline = await device.createComputePipelineAsync({ layout: "auto", compute });
  const size = GROUPS * lanes * 4;
  const uniform = device.createBuffer({ size: 16, usage: UNIFORM | COPY_DST });
  device.queue.writeBuffer(uniform, 0, params);
  const out = device.createBuffer({ size, usage: STORAGE | COPY_SRC });
  const staging = device.createBuffer({ size, usage: MAP_READ | COPY_DST });
  const buffers = [uniform, ...(data ? [data] : []), out];
  const group = device.createBindGroup({
    layout: pipeline.getBindGroupLayout(0),
    entries: buffers.map((buffer, binding) => ({ binding, resource: { buffer } })),
  });
  return { device, pipeline, group, out, staging, size };
}

/** Seconds of a submission of `times` dispatches until its result is there, the best of several. */
async function time({ device, pipeline, group, out, staging, size }, groups, times) {
  let best = Infinity;
  let result;
  const bytes = groups === 1 ? 16 : size;
  for (let run = 0; run < RUNS; run += 1) {
    const started = performance.now();
    const encoder = device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, group);
    for (let i = 0; i < times; i += 1) pass.dispatchWorkgroups(groups);
    pass.end();
    encoder.copyBufferToBuffer(out, 0, staging, 0, bytes);
    device.queue.submit([encoder.finish()]);
    const mapped = staging.mapAsync(GPUMapMode.READ, 0, bytes);
    // Firefox looks for finished mappings only every 100 ms, unless something is submitted.
    device.queue.submit([]);
    await mapped;
    best = Math.min(best, (performance.now() - started) / 1000);
    result = new Uint32Array(staging.getMappedRange(0, bytes).slice());
    staging.unmap();
  }
  return { seconds: best, out: result };
}
