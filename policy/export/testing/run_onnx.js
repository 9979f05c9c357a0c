// Runs policy.onnx of a folder with onnxruntime-web on the inputs of golden.json; prints the outputs as JSON.
//   NODE_PATH=.../node_modules node run_onnx.js FOLDER
const fs = require("fs");
const path = require("path");
const ort = require("onnxruntime-web");

const ARRAYS = { float32: Float32Array, uint8: Uint8Array, bool: Uint8Array };

async function main(folder) {
  const golden = JSON.parse(fs.readFileSync(path.join(folder, "golden.json")));
  const types = JSON.parse(process.argv[3]);
  ort.env.wasm.numThreads = 1;
  const session = await ort.InferenceSession.create(fs.readFileSync(path.join(folder, "policy.onnx")), {
    executionProviders: ["wasm"],
  });
  const feeds = {};
  for (const [name, { shape, data }] of Object.entries(golden.inputs)) {
    feeds[name] = new ort.Tensor(types[name], ARRAYS[types[name]].from(data), shape);
  }
  const results = await session.run(feeds);
  const outputs = {};
  for (const name of session.outputNames) outputs[name] = Array.from(results[name].data, Number);
  console.log(JSON.stringify(outputs));
}

main(process.argv[2]).catch((error) => {
  console.error(error);
  process.exit(1);
});
