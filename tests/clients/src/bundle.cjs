// Builds src/main.js of a folder into dist/app.js with its source map, by the bundler that is named.
const { mkdirSync, readFileSync, writeFileSync } = require("node:fs");
const { join } = require("node:path");

const [bundler, folder] = process.argv.slice(2);
const entry = join(folder, "src", "main.js");
const dist = join(folder, "dist");
mkdirSync(dist, { recursive: true });

async function esbuild(minify) {
  const { build } = require("esbuild");
  await build({ entryPoints: [entry], bundle: true, minify, sourcemap: true, outfile: join(dist, "app.js") });
}

async function rollup() {
  const { rollup: begin } = require("rollup");
  const bundle = await begin({ input: entry });
  await bundle.write({ file: join(dist, "app.js"), format: "iife", sourcemap: true });
}

async function webpack() {
  const { promisify } = require("node:util");
  const compiler = require("webpack")({
    mode: "production",
    entry,
    devtool: "source-map",
    target: "web",
    output: { path: dist, filename: "app.js" },
  });
  const stats = await promisify(compiler.run.bind(compiler))();
  if (stats.hasErrors()) throw new Error(stats.toString());
}

async function terser() {
  // Terser bundles nothing: it minifies what another bundler joined, and leads back through that one's map.
  await rollup();
  const { minify } = require("terser");
  const file = join(dist, "app.js");
  const content = JSON.parse(readFileSync(`${file}.map`, "utf8"));
  const done = await minify({ "app.js": readFileSync(file, "utf8") }, {
    toplevel: true,
    sourceMap: { content, includeSources: true, url: "app.js.map", filename: "app.js" },
  });
  writeFileSync(file, done.code);
  writeFileSync(`${file}.map`, done.map);
}

const BUNDLERS = { esbuild: () => esbuild(true), rollup, webpack, terser };
BUNDLERS[bundler]();
