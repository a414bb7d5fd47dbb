#!/usr/bin/env node
// Prints the snapshot of a source tree, algorithm service-source-tree-sha256-v1, for Node 20 and later.
//
//   node source-snapshot.mjs            before planning, on the tree as it is
//   node source-snapshot.mjs --final    after a clean commit, for the proof
//
// Standard output is one JSON object with three keys and nothing else; every complaint goes to standard error, with
// exit code 1. Nothing is written and nothing is sent: the tree is read, and git is only asked questions.
//
// The fingerprint is the SHA-256 over one line per file, in the byte order of the paths:
//
//   path NUL lowercase-hex-SHA-256-of-content LF
//
// Files are the tracked ones and the untracked ones that git does not ignore, from the top of the repository; regular
// files by their content, symbolic links by the text of their target. Outside git they are all files below the working
// directory except those in `.git` and `node_modules`, and there is no commit to name. Paths are bytes throughout,
// because a file name need not be UTF-8.

import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { closeSync, lstatSync, openSync, readdirSync, readlinkSync, readSync } from 'node:fs';

const ALGORITHM = 'service-source-tree-sha256-v1';
const SLASH = Buffer.from('/');
const OUTSIDE_GIT_SKIPPED = new Set(['.git', 'node_modules']);
const CHUNK = Buffer.allocUnsafe(1 << 20);

class Refusal extends Error {}

// Runs git in a fixed language, so that the one message that is told apart below reads the same everywhere.
function git(...args) {
  const run = spawnSync('git', args, {
    env: { ...process.env, LC_ALL: 'C', LANGUAGE: 'C', GIT_OPTIONAL_LOCKS: '0' },
    maxBuffer: Infinity,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  if (run.error && run.error.code !== 'ENOENT') throw run.error;
  return { missing: Boolean(run.error), ok: run.status === 0, stdout: run.stdout, stderr: String(run.stderr ?? '') };
}

function mustGit(...args) {
  const run = git(...args);
  if (!run.ok) throw new Refusal(`git ${args[0]} failed: ${run.stderr.trim()}`);
  return run.stdout;
}

// The top of the work tree, or null outside git. A repository that git will not read is an error: falling back to
// walking it would silently give another fingerprint.
function workTree() {
  const inside = git('rev-parse', '--is-inside-work-tree');
  if (inside.missing) return null;
  if (!inside.ok) {
    if (inside.stderr.includes('not a git repository')) return null;
    throw new Refusal(`git cannot read this repository: ${inside.stderr.trim()}`);
  }
  if (inside.stdout.toString().trim() !== 'true') return null;
  const top = mustGit('rev-parse', '--show-toplevel');
  return top.subarray(0, top.length - 1);
}

// Paths from the top of the repository, wherever in it this runs. A path in conflict is listed once for each side.
function gitPaths() {
  const list = mustGit('ls-files', '-z', '--full-name', '--cached', '--others', '--exclude-standard', ':/');
  const paths = new Map();
  for (let start = 0, end; (end = list.indexOf(0, start)) >= 0; start = end + 1) {
    const path = list.subarray(start, end);
    paths.set(path.toString('latin1'), path);
  }
  return [...paths.values()];
}

function* walkedPaths(directory, prefix) {
  for (const entry of readdirSync(directory, { withFileTypes: true, encoding: 'buffer' })) {
    if (OUTSIDE_GIT_SKIPPED.has(entry.name.toString('latin1'))) continue;
    const path = Buffer.concat([prefix, entry.name]);
    if (entry.isDirectory()) yield* walkedPaths(path, Buffer.concat([path, SLASH]));
    else yield path;
  }
}

function hashContent(path) {
  const hash = createHash('sha256');
  const file = openSync(path, 'r');
  try {
    for (let count; (count = readSync(file, CHUNK, 0, CHUNK.length, null)) > 0; ) hash.update(CHUNK.subarray(0, count));
  } finally {
    closeSync(file);
  }
  return hash.digest('hex');
}

// The hash of a file's content, or null for what is no file: a submodule, a directory, a device, a deleted path.
function hashFile(path) {
  let status;
  try {
    status = lstatSync(path);
  } catch (error) {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return null;
    throw error;
  }
  if (status.isSymbolicLink()) {
    return createHash('sha256').update(readlinkSync(path, { encoding: 'buffer' })).digest('hex');
  }
  return status.isFile() ? hashContent(path) : null;
}

function fingerprint(root, paths) {
  const tree = createHash('sha256');
  for (const path of paths.sort(Buffer.compare)) {
    const content = hashFile(root === null ? path : Buffer.concat([root, SLASH, path]));
    if (content !== null) tree.update(path).update(`\0${content}\n`);
  }
  return tree.digest('hex');
}

function headOf() {
  const head = git('rev-parse', '--verify', '--quiet', 'HEAD^{commit}');
  return head.ok ? head.stdout.toString().trim() : null;
}

function requireFinal(top, head) {
  if (top === null) throw new Refusal('--final needs a git work tree: there is no commit to name here.');
  if (head === null) throw new Refusal('--final needs a commit: commit the instrumented source first.');
  const dirty = mustGit('status', '--porcelain', '-z', '--untracked-files=all', '--ignore-submodules=none');
  if (dirty.length > 0) throw new Refusal('--final needs a clean tree: commit or remove every change first.');
}

function main(args) {
  const unknown = args.find((arg) => arg !== '--final');
  if (unknown !== undefined) throw new Refusal('usage: node source-snapshot.mjs [--final]');
  const top = workTree();
  const head = top === null ? null : headOf();
  if (args.includes('--final')) requireFinal(top, head);
  const paths = top === null ? [...walkedPaths(Buffer.from('.'), Buffer.alloc(0))] : gitPaths();
  return {
    git_head_sha: head,
    source_fingerprint_sha256: fingerprint(top, paths),
    source_fingerprint_algorithm: ALGORITHM,
  };
}

try {
  process.stdout.write(`${JSON.stringify(main(process.argv.slice(2)))}\n`);
} catch (error) {
  process.stderr.write(`source-snapshot: ${error instanceof Refusal ? error.message : error.stack}\n`);
  process.exitCode = 1;
}
