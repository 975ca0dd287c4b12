import { InvalidField } from './errors.js';

/** The names of all options of a type. The compiler refuses one that is not listed. */
export type Names<T> = { readonly [K in keyof Required<T>]: true };

/**
 * Throws {@link InvalidField} for an option that is not one of `known`. A program in plain JavaScript would otherwise run
 * with the default of the one that it means.
 */
export function checkNames<T>(options: T, known: Names<T>, taker: string): void {
  // Bytes are an object, too: a body in the place of the options.
  if (typeof options !== 'object' || options === null || options instanceof Uint8Array) {
    throw new InvalidField('options', `must be an object with options of ${taker}`);
  }
  for (const name of Object.keys(options)) {
    if (Object.hasOwn(known, name)) continue;
    throw new InvalidField(name, `is not an option of ${taker}; these are: ${Object.keys(known).join(', ')}`);
  }
}
