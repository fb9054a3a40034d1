// C#: passes a call of the function under test from the tests' program to the candidate's, and its result back.
//
// Both programs are linked to this library. The tests' program holds a stub that calls `Channel.Call` with the types of
// the function's signature, the candidate's passes the same types to `Channel.Serve`: values are written and read by
// them, so that what arrives can only be of the declared types. A frame is its length and its bytes.
using System;
using System.Collections;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Numerics;
using System.Reflection;
using System.Runtime.InteropServices;

namespace Stagecraft {
    /// <summary>What the candidate threw.</summary>
    public class Raised : Exception { public Raised(string message) : base(message) { } }

    class Unsupported : Exception { public Unsupported(string message) : base(message) { } }

    /// <summary>Makes a failed Debug.Assert of the tests their verdict.</summary>
    class Failing : TraceListener {
        public override void Write(string message) { }
        public override void WriteLine(string message) { }
        public override void Fail(string message, string detail) {
            Channel.Leave(1, "Debug.Assert fails " + message);
        }
    }

    public static class Channel {
        // Exit codes, read by compiled_judge.py.
        const int GONE = 120, UNREADABLE = 121, UNSUPPORTED = 122, RAISED = 123;
        const int LONGEST = 16 << 20, INTERRUPTED = 4;

        [DllImport("libc")] static extern int dup(int descriptor);
        [DllImport("libc")] static extern int dup2(int from, int to);
        [DllImport("libc")] static extern int open(string path, int flags);
        [DllImport("libc")] static extern void _exit(int code);

        [DllImport("libc", SetLastError = true)] static extern IntPtr read(int descriptor, byte[] bytes, IntPtr count);
        [DllImport("libc", SetLastError = true)] static extern IntPtr write(int descriptor, byte[] bytes, IntPtr count);

        static int incoming, outgoing;

        /// <summary>Takes the pipes for itself: what the program reads and prints goes to /dev/null.</summary>
        static void Open() {
            incoming = dup(0);
            outgoing = dup(1);
            int nothing = open("/dev/null", 2);
            dup2(nothing, 0);
            dup2(nothing, 1);
        }

        internal static void Leave(int code, string reason) {
            if (reason != null) Console.Error.WriteLine("stagecraft: " + reason);
            _exit(code);
        }

        /// <summary>Runs the tests' Main.</summary>
        public static int Tests(Type tests) {
            Open();
            Debug.Listeners.Clear();
            Debug.Listeners.Add(new Failing());
            var main = tests.GetMethod("Main", BindingFlags.Static | BindingFlags.Public | BindingFlags.NonPublic);
            try {
                object code = main.Invoke(null, main.GetParameters().Select(parameter => (object) new string[0]).ToArray());
                if (code is int && (int) code != 0) Leave(1, "Main returns " + code);
            } catch (TargetInvocationException wrong) {
                Leave(wrong.InnerException is Raised ? RAISED : 1, wrong.InnerException.ToString());
            }
            return 0;
        }

        /// <summary>Calls the candidate's function.</summary>
        public static object Call(Type result, Type[] types, object[] arguments) {
            var request = new MemoryStream();
            try {
                using (var to = new BinaryWriter(request, System.Text.Encoding.UTF8, true))
                    for (int i = 0; i < arguments.Length; i++) Write(to, types[i], arguments[i], 0);
                Send(request);
            } catch (Unsupported what) {
                Leave(UNSUPPORTED, what.Message);
            }
            try {
                var from = Receive();
                if (from.ReadByte() == 1) throw new Raised((string) Read(from, typeof(string)));
                object answer = result == typeof(void) ? null : Read(from, result);
                if (from.ReadBoolean()) {
                    if (!Distinct(arguments, new List<object>()))
                        Leave(UNSUPPORTED, "arguments share an object, and the program changes one");
                    for (int i = 0; i < arguments.Length; i++) Restored(arguments[i], Read(from, types[i]));
                }
                return answer;
            } catch (Raised) {
                throw;
            } catch (Exception wrong) {
                Leave(UNREADABLE, wrong.Message);
                throw;
            }
        }

        /// <summary>Answers calls of the candidate's function until the tests have ended.</summary>
        public static int Serve(Type result, Type[] types, Func<object[], object> function) {
            Open();
            for (;;) {
                var from = Receive();
                var request = ((MemoryStream) from.BaseStream).ToArray();
                var arguments = types.Select(type => Read(from, type)).ToArray();
                var reply = new MemoryStream();
                var to = new BinaryWriter(reply);
                try {
                    object answer = function(arguments);
                    to.Write((byte) 0);
                    if (result != typeof(void)) Write(to, result, answer, 0);
                    var after = new MemoryStream();
                    var changed = new BinaryWriter(after);
                    for (int i = 0; i < arguments.Length; i++) Write(changed, types[i], arguments[i], 0);
                    to.Write(!after.ToArray().SequenceEqual(request));
                    after.WriteTo(reply);
                    Send(reply);
                } catch (Unsupported what) {
                    Leave(UNSUPPORTED, what.Message);
                } catch (OutOfMemoryException) {
                    Leave(GONE, "System.OutOfMemoryException");
                } catch (Exception wrong) {
                    Console.Error.WriteLine(wrong);
                    reply.SetLength(0);
                    to.Write((byte) 1);
                    Write(to, typeof(string), wrong.GetType() + ": " + wrong.Message, 0);
                    Send(reply);
                }
            }
        }

        static void Send(MemoryStream frame) {
            if (frame.Length > LONGEST) throw new Unsupported("values of more than 16 MB cannot be passed");
            for (var bytes = BitConverter.GetBytes((int) frame.Length).Concat(frame.ToArray()).ToArray(); bytes.Length > 0;) {
                int written = (int) write(outgoing, bytes, (IntPtr) bytes.Length);
                if (written < 0 && Marshal.GetLastWin32Error() != INTERRUPTED) Leave(GONE, null);
                if (written > 0) bytes = bytes.Skip(written).ToArray();
            }
        }

        static BinaryReader Receive() {
            int length = BitConverter.ToInt32(Bytes(4), 0);
            if (length < 0 || length > LONGEST) Leave(UNREADABLE, "a frame of more than 16 MB");
            return new BinaryReader(new MemoryStream(Bytes(length), 0, length, false, true));
        }

        static byte[] Bytes(int count) {
            var bytes = new byte[count];
            for (int filled = 0; filled < count;) {
                var part = new byte[Math.Min(count - filled, 1 << 16)];
                int got = (int) read(incoming, part, (IntPtr) part.Length);
                if (got == 0 || got < 0 && Marshal.GetLastWin32Error() != INTERRUPTED) Leave(GONE, null);
                if (got > 0) Buffer.BlockCopy(part, 0, bytes, filled, got);
                filled += Math.Max(got, 0);
            }
            return bytes;
        }

        // Simple types, which `object` can hold as well; their place is their number there.
        static readonly List<Type> SIMPLE = new List<Type> {
            typeof(bool), typeof(sbyte), typeof(byte), typeof(short), typeof(ushort), typeof(char), typeof(int), typeof(uint),
            typeof(long), typeof(ulong), typeof(float), typeof(double), typeof(decimal), typeof(BigInteger), typeof(string),
        };
        static readonly Type[] LISTS = {
            typeof(List<>), typeof(IList<>), typeof(IEnumerable<>), typeof(ICollection<>), typeof(IReadOnlyList<>),
            typeof(IReadOnlyCollection<>),
        };
        static readonly Type[] MAPS = { typeof(Dictionary<,>), typeof(IDictionary<,>), typeof(SortedDictionary<,>) };
        static readonly Type[] SETS = { typeof(HashSet<>), typeof(ISet<>), typeof(SortedSet<>) };

        static Type Generic(Type type) { return type.IsGenericType ? type.GetGenericTypeDefinition() : null; }

        static bool IsTuple(Type type) {
            string name = type.IsGenericType ? type.FullName : "";
            return (name.StartsWith("System.Tuple`") || name.StartsWith("System.ValueTuple`")) && type.GetGenericArguments().Length < 8;
        }

        static object Item(object tuple, Type type, int number) {
            string name = "Item" + number;
            return type.IsValueType ? type.GetField(name).GetValue(tuple) : type.GetProperty(name).GetValue(tuple);
        }

        static void Write(BinaryWriter to, Type type, object value, int depth) {
            if (depth > 100) throw new Unsupported("a value that is nested more than 100 deep cannot be passed");
            if (!type.IsValueType || Nullable.GetUnderlyingType(type) != null) {
                to.Write(value != null);
                if (value == null) return;
                type = Nullable.GetUnderlyingType(type) ?? type;
            }
            if (type == typeof(object)) {
                type = value.GetType();
                WriteType(to, type);
                if (type == typeof(object)) throw new Unsupported("an object of no class cannot be passed");
                if (!type.IsValueType) to.Write(true);
            }
            Type[] inner = type.GetGenericArguments();
            if (type == typeof(string)) {
                var text = ((string) value).ToCharArray();  // as it is, halves of surrogate pairs too
                to.Write(text.Length);
                foreach (char character in text) to.Write((ushort) character);
            } else if (type == typeof(char)) to.Write((ushort) (char) value);
            else if (type == typeof(BigInteger)) {
                var bytes = ((BigInteger) value).ToByteArray();
                to.Write(bytes.Length);
                to.Write(bytes);
            } else if (SIMPLE.Contains(type)) typeof(BinaryWriter).GetMethod("Write", new[] { type }).Invoke(to, new[] { value });
            else if (IsTuple(type))
                for (int i = 0; i < inner.Length; i++) Write(to, inner[i], Item(value, type, i + 1), depth + 1);
            else if (type.IsArray && type.GetArrayRank() == 1) Items(to, type.GetElementType(), (IEnumerable) value, depth);
            else if (LISTS.Contains(Generic(type)) || SETS.Contains(Generic(type))) Items(to, inner[0], (IEnumerable) value, depth);
            else if (MAPS.Contains(Generic(type))) {
                var entries = ((IEnumerable) value).Cast<object>().ToList();
                foreach (var name in new[] { "Key", "Value" })
                    Items(to, inner[name == "Key" ? 0 : 1], entries.Select(entry => entry.GetType().GetProperty(name).GetValue(entry)), depth);
            } else throw new Unsupported("values of type " + type + " cannot be passed");
        }

        // The class of a value that is declared as `object`: a simple type, or a list or dictionary of such.
        const byte OBJECT = 100, LIST = 101, MAP = 102;

        static void WriteType(BinaryWriter to, Type type) {
            int kind = type == typeof(object) ? OBJECT : Generic(type) == LISTS[0] ? LIST : Generic(type) == MAPS[0] ? MAP
                : SIMPLE.IndexOf(type);
            if (kind < 0) throw new Unsupported("an object of class " + type + " cannot be passed");
            to.Write((byte) kind);
            if (kind >= LIST) foreach (var inner in type.GetGenericArguments()) WriteType(to, inner);
        }

        static Type ReadType(BinaryReader from, int depth) {
            byte kind = from.ReadByte();
            if (depth > 100) throw new IOException("a type that is nested too deep");
            if (kind == LIST) return LISTS[0].MakeGenericType(ReadType(from, depth + 1));
            if (kind == MAP) return MAPS[0].MakeGenericType(ReadType(from, depth + 1), ReadType(from, depth + 1));
            return kind == OBJECT ? typeof(object) : SIMPLE[kind];
        }

        static void Items(BinaryWriter to, Type type, IEnumerable items, int depth) {
            var all = items.Cast<object>().Take(LONGEST).ToList();
            to.Write(all.Count);
            foreach (var item in all) Write(to, type, item, depth + 1);
        }

        static object Read(BinaryReader from, Type type) {
            if (!type.IsValueType || Nullable.GetUnderlyingType(type) != null) {
                if (!from.ReadBoolean()) return null;
                type = Nullable.GetUnderlyingType(type) ?? type;
            }
            if (type == typeof(object)) return Read(from, ReadType(from, 0));
            Type[] inner = type.GetGenericArguments();
            if (type == typeof(string)) {
                var text = new char[Count(from)];
                for (int i = 0; i < text.Length; i++) text[i] = (char) from.ReadUInt16();
                return new string(text);
            }
            if (type == typeof(char)) return (char) from.ReadUInt16();
            if (type == typeof(BigInteger)) return new BigInteger(from.ReadBytes(Count(from)));
            if (SIMPLE.Contains(type)) return typeof(BinaryReader).GetMethod("Read" + type.Name).Invoke(from, null);
            if (IsTuple(type)) return Activator.CreateInstance(type, inner.Select(part => Read(from, part)).ToArray());
            if (type.IsArray) {
                var items = Items(from, type.GetElementType());
                var array = Array.CreateInstance(type.GetElementType(), items.Count);
                items.CopyTo(array, 0);
                return array;
            }
            if (LISTS.Contains(Generic(type))) return Items(from, inner[0]);
            if (SETS.Contains(Generic(type))) {
                var kind = Generic(type) == typeof(ISet<>) ? typeof(HashSet<>) : Generic(type);
                return Activator.CreateInstance(kind.MakeGenericType(inner), Items(from, inner[0]));
            }
            var made = Generic(type) == typeof(SortedDictionary<,>) ? Generic(type) : typeof(Dictionary<,>);
            var map = (IDictionary) Activator.CreateInstance(made.MakeGenericType(inner));
            var keys = Items(from, inner[0]);
            var values = Items(from, inner[1]);
            for (int i = 0; i < keys.Count; i++) map.Add(keys[i], values[i]);
            return map;
        }

        static IList Items(BinaryReader from, Type type) {
            var items = (IList) Activator.CreateInstance(typeof(List<>).MakeGenericType(type));
            for (int left = Count(from); left > 0; left--) items.Add(Read(from, type));
            return items;
        }

        /// <summary>A number of items, each of which takes at least one byte.</summary>
        static int Count(BinaryReader from) {
            int count = from.ReadInt32();
            if (count < 0 || count > from.BaseStream.Length - from.BaseStream.Position) throw new IOException("a frame that is too short");
            return count;
        }

        /// <summary>Whether no array, list, map or set stands twice in the arguments.</summary>
        static bool Distinct(IEnumerable items, List<object> seen) {
            foreach (var item in items) {
                if (!(item is IEnumerable) || item is string) continue;
                if (seen.Any(other => ReferenceEquals(other, item))) return false;
                if (seen.Count < 1000) seen.Add(item);
                if (!Distinct(item is IDictionary ? ((IDictionary) item).Values : (IEnumerable) item, seen)) return false;
            }
            return true;
        }

        /// <summary>What an argument is after the call: the same object with the content that the candidate gave it.</summary>
        static object Restored(object old, object made) {
            if (old == null || made == null || old is string) return made;
            if (old is IList && made is IList) {
                var (items, others) = ((IList) old, (IList) made);
                if (items.Count == others.Count)
                    for (int i = 0; i < items.Count; i++) items[i] = Restored(items[i], others[i]);
                else {
                    items.Clear();
                    foreach (var item in others) items.Add(item);
                }
            } else if (old is IDictionary && made is IDictionary) {
                ((IDictionary) old).Clear();
                foreach (DictionaryEntry entry in (IDictionary) made) ((IDictionary) old).Add(entry.Key, entry.Value);
            } else if (SETS.Contains(Generic(old.GetType()))) {
                old.GetType().GetMethod("Clear").Invoke(old, null);
                old.GetType().GetMethod("UnionWith").Invoke(old, new[] { made });
            } else return made;
            return old;
        }
    }
}
