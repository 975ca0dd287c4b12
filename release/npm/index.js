"use strict";

// Where the program is: in the package for this machine, which npm installs as an optional dependency.

const NAME = "idempotency-ledger";

/** The path of the program. Throws if this machine has no package, or if optional dependencies were left out. */
function program() {
  const fitting = `@${NAME}/${process.platform}-${process.arch}`;
  try {
    return require.resolve(`${fitting}/bin/${NAME}`);
  } catch (error) {
    if (error.code !== "MODULE_NOT_FOUND") throw error;
    throw new Error(
      `${fitting} is not installed: the program exists for linux-x64 and linux-arm64; npm leaves it out with --omit=optional`,
    );
  }
}

module.exports = { program };
