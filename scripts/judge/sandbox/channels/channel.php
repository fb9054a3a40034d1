<?php
// PHP: passes a call of the function under test from the tests' process to the candidate's, and its result back.
//
//     php channel.php tests READ WRITE FILE ENTRY        // FILE holds the tests, in which ENTRY is a stub
//     php channel.php candidate READ WRITE FILE ENTRY    // FILE holds the program
//
// A message is a line of JSON over the descriptors READ and WRITE: the arguments, or the result, or why there is none.
// What JSON lacks is an object with one key. What is read is rebuilt from plain values; nothing is ever unserialized.
// MultiPL-E's tests pass arguments by value, so what became of them is not sent back.
namespace stagecraft;

// Exit codes, read by interpreted_judge.py.
const UNCALLED = 119, GONE = 120, UNREADABLE = 121, UNSUPPORTED = 122, RAISED = 123;
const LONGEST = 16 << 20, DEEPEST = 4096;

final class Raised extends \Exception {}

[, $role, $reading, $writing, $file, $entry] = $argv;
$GLOBALS['stagecraft'] = [\fopen("php://fd/$reading", 'rb'), \fopen("php://fd/$writing", 'wb')];

function stop(int $code, string $reason): never {
    \fwrite(\STDERR, "stagecraft: $reason\n");
    exit($code);
}

function encode(mixed $value): mixed {
    if (\is_float($value)) return ['f' => \is_finite($value) ? \var_export($value, true) : (string) $value];
    if (\is_string($value)) return \preg_match('//u', $value) ? $value : ['b' => \base64_encode($value)];
    if (\is_array($value)) {
        if (\array_is_list($value)) return ['l' => \array_map(encode(...), $value)];
        return ['a' => \array_map(fn ($key) => [encode($key), encode($value[$key])], \array_keys($value))];
    }
    if ($value instanceof \stdClass) return ['o' => encode((array) $value)];
    if (\is_object($value) || \is_resource($value))
        stop(UNSUPPORTED, 'a value of type ' . \get_debug_type($value) . ' cannot be passed');
    return $value;
}

function decode(mixed $value): mixed {
    if (!\is_array($value)) return $value;
    if (\count($value) !== 1) throw new \ValueError('not a value');
    $content = \reset($value);
    switch (\key($value)) {
        case 'f': return match ($content) { 'NAN' => \NAN, 'INF' => \INF, '-INF' => -\INF, default => (float) $content };
        case 'b': return \base64_decode($content);
        case 'l': return \array_map(decode(...), $content);
        case 'o': return (object) decode($content);
        case 'a':
            $made = [];
            foreach ($content as [$key, $item]) $made[decode($key)] = decode($item);
            return $made;
    }
    throw new \ValueError('an unknown kind of value');
}

function send(mixed $message): void {
    $line = \json_encode($message, \JSON_THROW_ON_ERROR, DEEPEST) . "\n";
    if (\strlen($line) > LONGEST) stop(UNSUPPORTED, 'values of more than 16 MB cannot be passed');
    for ($sent = 0; $sent < \strlen($line);) {
        $count = @\fwrite($GLOBALS['stagecraft'][1], \substr($line, $sent, 1 << 16));
        if (!$count) stop(GONE, 'the other side has ended');
        $sent += $count;
    }
}

function receive(): mixed {
    $line = \fgets($GLOBALS['stagecraft'][0], LONGEST);
    if ($line === false) stop(GONE, 'the other side has ended');
    if (!\str_ends_with($line, "\n")) stop(UNREADABLE, 'a message that does not end');
    return \json_decode($line, true, DEEPEST, \JSON_THROW_ON_ERROR);
}

function call(array $arguments): mixed {
    $GLOBALS['stagecraft'][2] = true;
    send(\array_map(encode(...), $arguments));
    // a warning on the way to the value, as of an array that is none, makes the message unreadable
    \set_error_handler(fn ($level, $text) => throw new \ErrorException($text));
    try {
        $reply = receive();
        if (\array_keys($reply) === ['error']) throw new Raised((string) $reply['error']);
        return decode($reply['result']);
    } catch (Raised $wrong) {
        throw $wrong;
    } catch (\Throwable $wrong) {
        stop(UNREADABLE, $wrong->getMessage());
    } finally {
        \restore_error_handler();
    }
}

if ($role === 'tests') {
    if (\function_exists($entry)) stop(UNSUPPORTED, "PHP has a function $entry itself, so no program can define it");
    // the stub is in the global namespace, where the tests look for it
    eval("namespace { function $entry(...\$arguments) { return \\stagecraft\\call(\$arguments); } }");
    try {
        require $file;
    } catch (Raised $wrong) {
        stop(RAISED, $wrong->getMessage());
    } catch (\Throwable $wrong) {
        stop(1, (string) $wrong);
    }
    if (!isset($GLOBALS['stagecraft'][2])) stop(UNCALLED, 'the tests never call the function');
    exit(0);
}
require $file;
$called = "\\$entry";
for (;;) {
    $received = \array_map(decode(...), receive());
    try {
        $reply = ['result' => encode($called(...$received))];
    } catch (\Throwable $wrong) {
        $reply = ['error' => \json_encode(\substr($wrong->getMessage(), 0, 1000), \JSON_INVALID_UTF8_SUBSTITUTE)];
    }
    send($reply);
}
