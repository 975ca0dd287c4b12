import { defineConfig, globalIgnores } from 'eslint/config';
import tseslint from 'typescript-eslint';

export default defineConfig(
  globalIgnores(['dist', 'build', 'src/gen', '**/*.mjs']),
  tseslint.configs.strictTypeChecked,
  {
    // node:test waits for its tests by itself.
    files: ['tests/**'],
    rules: {
      '@typescript-eslint/no-floating-promises': 'off',
      // Values that this version does not know are what some tests are about.
      '@typescript-eslint/no-unsafe-enum-assignment': 'off',
    },
  },
  {
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      // Numbers are what most messages are about, and have one text.
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true, allowBoolean: true }],
      // A shell is given callbacks that may be asynchronous or not.
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
    },
  },
);
