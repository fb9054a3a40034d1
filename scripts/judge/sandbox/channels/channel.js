// JavaScript: passes a call of the function under test from the tests' process to the candidate's, and its result back.
//
//     node channel.js tests READ WRITE FILE ENTRY        // FILE holds the tests, in which ENTRY is a stub
//     node channel.js candidate READ WRITE FILE ENTRY    // FILE holds the program
//
// A message is a line of JSON over the descriptors READ and WRITE: the arguments, or the result and what became of the
// arguments. What JSON lacks is written as an object with one key. What is read is rebuilt from plain values.
'use strict';
const fs = require('fs');
const vm = require('vm');

// Exit codes, read by interpreted_judge.py.
const UNCALLED = 119, GONE = 120, UNREADABLE = 121, UNSUPPORTED = 122, RAISED = 123;
const LONGEST = 16 << 20;
const [role, reading, writing, file, entry] = process.argv.slice(2);
const leave = process.reallyExit.bind(process);
const { readSync, writeSync } = fs;
const { parse, stringify } = JSON;

function stop(code, reason) {
  try { writeSync(2, `stagecraft: ${reason}\n`); } catch { /* nobody listens */ }
  leave(code);
}

function encode(value) {
  if (value === undefined) return { u: 0 };
  if (value === null || typeof value === 'boolean' || typeof value === 'string') return value;
  if (typeof value === 'number') return Number.isFinite(value) && !Object.is(value, -0) ? value : { n: Object.is(value, -0) ? '-0' : String(value) };
  if (typeof value === 'bigint') return { b: String(value) };
  if (Array.isArray(value)) return Array.from(value, encode);
  if (value instanceof Map) return { m: Array.from(value, (pair) => Array.from(pair, encode)) };
  if (value instanceof Set) return { s: Array.from(value, encode) };
  if (value instanceof Date) return { d: value.getTime() };
  if (typeof value === 'object' && [Object.prototype, null].includes(Object.getPrototypeOf(value)))
    return { o: Object.entries(value).map(([key, item]) => [key, encode(item)]) };
  return stop(UNSUPPORTED, `a ${typeof value} of class ${value.constructor && value.constructor.name} cannot be passed`);
}

function decode(value) {
  if (value === null || typeof value !== 'object') return value;
  if (Array.isArray(value)) return value.map(decode);
  const [kind, content] = Object.entries(value)[0];
  switch (kind) {
    case 'u': return undefined;
    case 'n': return Number(content);
    case 'b': return BigInt(content);
    case 'm': return new Map(content.map((pair) => pair.map(decode)));
    case 's': return new Set(content.map(decode));
    case 'd': return new Date(content);
    case 'o': {
      const made = {};
      for (const [key, item] of content)
        Object.defineProperty(made, key, { value: decode(item), writable: true, enumerable: true, configurable: true });
      return made;
    }
  }
  throw new Error('an unknown kind of value');
}

function send(message) {
  const line = Buffer.from(stringify(message) + '\n');
  if (line.length > LONGEST) stop(UNSUPPORTED, 'values of more than 16 MB cannot be passed');
  try {
    for (let sent = 0; sent < line.length;) sent += writeSync(+writing, line, sent);
  } catch { stop(GONE, 'the other side has ended'); }
}

let rest = Buffer.alloc(0);
function receive() {
  const parts = [rest];
  for (let size = rest.length; !parts[parts.length - 1].includes(10);) {
    const chunk = Buffer.alloc(1 << 16);
    let read = 0;
    try { read = readSync(+reading, chunk); } catch { read = 0; }
    if (!read) stop(GONE, 'the other side has ended');
    parts.push(chunk.subarray(0, read));
    if ((size += read) > LONGEST) stop(UNREADABLE, 'a message of more than 16 MB');
  }
  const all = Buffer.concat(parts), end = all.indexOf(10);
  rest = all.subarray(end + 1);
  return parse(all.toString('utf8', 0, end));
}

// Makes of an argument what the candidate made of it.
function restore(old, made) {
  if (Array.isArray(old) && Array.isArray(made)) {
    made.forEach((item, place) => { if (!Array.isArray(old[place]) || !restore(old[place], item)) old[place] = item; });
    old.length = made.length;
    return true;
  }
  if (old instanceof Map || old instanceof Set) {
    old.clear();
    for (const item of made) old instanceof Map ? old.set(...item) : old.add(item);
  } else if (old && typeof old === 'object' && !(old instanceof Date)) {
    for (const key of Object.keys(old)) delete old[key];
    Object.assign(old, made);
  }
  return false;
}

let calls = 0;
function call(...values) {
  calls++;
  send(values.map(encode));
  let reply;
  try {
    reply = receive();
    if (reply.length === 1) throw Object.assign(new Error(String(reply[0])), { raised: true });
    const made = reply[1].map(decode);
    if (made.length !== values.length) throw new Error('another number of arguments');
    values.forEach((value, index) => restore(value, made[index]));
    return decode(reply[0]);
  } catch (wrong) {
    if (wrong.raised) throw wrong;
    return stop(UNREADABLE, wrong.message);
  }
}

const source = fs.readFileSync(file, 'utf8');
const run = (text) => vm.runInThisContext(`(function (require, ${role === 'tests' ? entry : 'module'}) {${text}\n})`, file);
if (role === 'tests') {
  const failed = (wrong) => stop(wrong && wrong.raised ? RAISED : 1, wrong && wrong.stack || String(wrong));
  process.on('uncaughtException', failed);
  process.on('unhandledRejection', failed);
  // not before: tests may be asynchronous
  process.on('exit', (code) => code || calls ? leave(code) : stop(UNCALLED, 'the tests never call the function'));
  run(source)(require, call);
} else {
  const called = run(`${source}\nreturn ${entry};`)(require, { exports: {} });
  for (;;) {
    const values = receive().map(decode);
    let reply;
    try {
      const result = called(...values);
      reply = [encode(result), values.map(encode)];
    } catch (wrong) {
      reply = [String(wrong && wrong.message).slice(0, 1000)];
    }
    send(reply);
  }
}
