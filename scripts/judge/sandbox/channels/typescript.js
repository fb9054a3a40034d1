// TypeScript: prints a program as JavaScript, after a check of its types as `tsc --target esnext` makes it.
//
//     node typescript.js check LIBRARY FILE        // exit code 2 and the errors if a type is wrong
//     node typescript.js translate LIBRARY FILE    // without a check of types
//
// LIBRARY is TypeScript's typescript.js. Its own declarations are not checked again, which halves the time.
'use strict';
const fs = require('fs');
const [role, library, file] = process.argv.slice(2);
const ts = require(library);
const options = { target: ts.ScriptTarget.ESNext, module: ts.ModuleKind.ESNext, types: [], skipLibCheck: true, newLine: 1 };

if (role === 'translate') {
  fs.writeSync(1, ts.transpileModule(fs.readFileSync(file, 'utf8'), { compilerOptions: options }).outputText);
} else {
  const program = ts.createProgram([file], options);
  const errors = ts.getPreEmitDiagnostics(program);
  if (errors.length) {
    const host = { getCurrentDirectory: () => '/', getNewLine: () => '\n', getCanonicalFileName: (name) => name };
    fs.writeSync(2, ts.formatDiagnostics(errors, host).slice(0, 4000));
    process.exit(2);
  }
  program.emit(undefined, (name, text) => fs.writeFileSync(1, text));
}
