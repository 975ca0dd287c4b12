#!/usr/bin/env node
"use strict";

// Runs the program in place of this process as far as Node allows: it gets the signals, and its end is this process's end.

const { spawn } = require("node:child_process");
const { constants } = require("node:os");
const { program } = require("../index.js");

let path;
try {
  path = program();
} catch (error) {
  console.error(`error: ${error.message}`);
  process.exit(1);
}
const child = spawn(path, process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`error: ${path}: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => process.exit(signal ? 128 + constants.signals[signal] : code));
