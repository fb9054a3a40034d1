// Java: passes a call of the method under test from the tests' program to the candidate's, and brings its result back.
//
//     java -cp TESTS.jar:CHANNEL.jar stagecraft.Channel tests Main
//     java -cp CANDIDATE.jar:CHANNEL.jar stagecraft.Channel candidate Solution method
//
// In the tests' program the method is a stub that calls `call`. A frame is its length (32 bits) and the values one after
// the other, each a letter for its kind and its content: the arguments, or the result and what became of the arguments.
// A result of another class of a known interface (List, Map, ...) becomes one of the platform's, so no `equals` of the
// candidate's reaches the tests. Strings are interned, as a test may compare a literal with ==. An exception is passed
// on if its class is the platform's. What is read is checked, and is never Java's own serialization.
package stagecraft;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.Array;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.*;
import java.util.function.Supplier;

public class Channel {
    // Exit codes, read by compiled_judge.py.
    private static final int GONE = 120, UNREADABLE = 121, UNSUPPORTED = 122, RAISED = 123, FAILED = 97, BROKEN = 98;
    private static final int LONGEST = 16 << 20, DEEPEST = 200;

    private static DataInputStream in;
    private static FileOutputStream out;
    private static Throwable raised;

    private static void leave(int code, Object reason) {
        if (reason != null) System.err.println("stagecraft: " + reason);
        Runtime.getRuntime().halt(code);
    }

    public static void main(String[] arguments) throws Throwable {
        in = new DataInputStream(new FileInputStream(FileDescriptor.in));
        out = new FileOutputStream(FileDescriptor.out);
        System.setIn(InputStream.nullInputStream());
        System.setOut(new PrintStream(OutputStream.nullOutputStream()));
        if (arguments[0].equals("tests")) tests(arguments[1]);
        else serve(Class.forName(arguments[1]), arguments[2]);
    }

    private static void tests(String type) {
        try {
            Method main = Class.forName(type).getDeclaredMethod("main", String[].class);
            main.setAccessible(true);
            main.invoke(null, (Object) new String[0]);
        } catch (Throwable thrown) {
            Throwable cause = thrown;
            while ((cause instanceof InvocationTargetException || cause instanceof ExceptionInInitializerError)
                && cause.getCause() != null) cause = cause.getCause();
            cause.printStackTrace();
            boolean broken = cause instanceof LinkageError || thrown instanceof ReflectiveOperationException && cause == thrown;
            leave(cause == raised ? RAISED : broken ? BROKEN : FAILED, null);
        }
        Runtime.getRuntime().halt(0);
    }

    /** The tests' side: what the candidate's method returns. */
    public static Object call(Object... arguments) {
        try {
            send(arguments);
            DataInputStream reply = receive();
            if (!reply.readBoolean()) throwIt(exception(reply.readUTF(), reply.readUTF()));
            Object result = read(reply, 0);
            boolean shared = !distinct(arguments, Collections.newSetFromMap(new IdentityHashMap<>()));
            for (Object argument : arguments) {
                Object made = read(reply, 0);
                if (shared && !Objects.deepEquals(argument, made))
                    leave(UNSUPPORTED, "arguments share an object that the program changes");
                restore(argument, made);
            }
            if (reply.available() > 0) leave(UNREADABLE, "a frame that is too long");
            return result;
        } catch (IOException | RuntimeException | StackOverflowError wrong) {
            if (wrong == raised) throwIt(raised);
            leave(UNREADABLE, wrong);
            return null;
        }
    }

    /** The candidate's side: answers calls until the tests have ended. */
    private static void serve(Class<?> type, String name) throws Throwable {
        for (;;) {
            DataInputStream call = receive();
            Object[] arguments = (Object[]) read(call, 0);
            Object result = null;
            try {
                Method method = method(type, name, arguments.length);
                result = method.invoke(Modifier.isStatic(method.getModifiers()) ? null : made(type), arguments);
            } catch (InvocationTargetException thrown) {
                thrown.getCause().printStackTrace();
                if (thrown.getCause() instanceof VirtualMachineError) leave(1, null);
                ByteArrayOutputStream reply = new ByteArrayOutputStream();
                DataOutputStream data = new DataOutputStream(reply);
                data.writeBoolean(false);
                data.writeUTF(thrown.getCause().getClass().getName());
                data.writeUTF(String.valueOf(thrown.getCause().getMessage()).replaceAll("(?s)^(.{1000}).*", "$1"));
                frame(reply.toByteArray());
                continue;
            }
            ByteArrayOutputStream reply = new ByteArrayOutputStream();
            DataOutputStream data = new DataOutputStream(reply);
            data.writeBoolean(true);
            write(data, result, 0);
            for (Object argument : arguments) write(data, argument, 0);
            frame(reply.toByteArray());
        }
    }

    private static Method method(Class<?> type, String name, int parameters) {
        for (Method method : type.getDeclaredMethods()) {
            if (!method.getName().equals(name) || method.getParameterCount() != parameters) continue;
            method.setAccessible(true);
            return method;
        }
        throw new NoSuchMethodError(type.getName() + "." + name);
    }

    private static Object made(Class<?> type) throws ReflectiveOperationException {
        var constructor = type.getDeclaredConstructor();
        constructor.setAccessible(true);
        return constructor.newInstance();
    }

    private static void send(Object value) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        write(new DataOutputStream(bytes), value, 0);
        frame(bytes.toByteArray());
    }

    private static void frame(byte[] content) {
        if (content.length > LONGEST) leave(UNSUPPORTED, "values of more than 16 MB cannot be passed");
        try {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            new DataOutputStream(bytes).writeInt(content.length);
            bytes.write(content);
            out.write(bytes.toByteArray());
        } catch (IOException closed) {
            leave(GONE, null);
        }
    }

    private static DataInputStream receive() throws IOException {
        byte[] content = {};
        try {
            int size = in.readInt();
            if (size < 0 || size > LONGEST) leave(UNREADABLE, "a frame of more than 16 MB");
            content = in.readNBytes(size);
            if (content.length < size) throw new EOFException();
        } catch (EOFException closed) {
            leave(GONE, null);
        }
        return new DataInputStream(new ByteArrayInputStream(content));
    }

    /** An exception of the candidate's: of its class if that is the platform's, else a RuntimeException. */
    private static Throwable exception(String type, String message) {
        try {
            Class<?> known = Class.forName(type, false, ClassLoader.getPlatformClassLoader());
            raised = (Throwable) known.asSubclass(Throwable.class).getConstructor(String.class).newInstance(message);
        } catch (ReflectiveOperationException | ClassCastException | LinkageError unknown) {
            raised = new RuntimeException(type + ": " + message);
        }
        return raised;
    }

    @SuppressWarnings("unchecked")
    private static <E extends Throwable> void throwIt(Throwable thrown) throws E {
        throw (E) thrown;
    }

    private static final Map<String, Supplier<Collection<Object>>> COLLECTIONS = new LinkedHashMap<>();
    private static final Map<String, Supplier<Map<Object, Object>>> MAPS = new LinkedHashMap<>();
    private static final Set<String> TUPLES = Set.of("Unit", "Pair", "Triplet", "Quartet", "Quintet", "Sextet", "Septet",
        "Octet", "Ennead", "Decade");
    private static final Class<?> FIXED = Arrays.asList(1).getClass();
    private static final List<Class<?>> COMPONENTS = List.of(int.class, long.class, double.class, boolean.class,
        char.class, byte.class, short.class, float.class, String.class, Integer.class, Long.class, Double.class,
        Boolean.class, Character.class, Object.class, List.class);

    static {
        COLLECTIONS.put("ArrayList", ArrayList::new);
        COLLECTIONS.put("LinkedHashSet", LinkedHashSet::new);
        COLLECTIONS.put("ArrayDeque", ArrayDeque::new);
        COLLECTIONS.put("LinkedList", LinkedList::new);
        COLLECTIONS.put("HashSet", LinkedHashSet::new);
        COLLECTIONS.put("TreeSet", TreeSet::new);
        COLLECTIONS.put("Vector", Vector::new);
        COLLECTIONS.put("Stack", Stack::new);
        COLLECTIONS.put("PriorityQueue", PriorityQueue::new);
        MAPS.put("LinkedHashMap", LinkedHashMap::new);
        MAPS.put("HashMap", LinkedHashMap::new);
        MAPS.put("TreeMap", TreeMap::new);
    }

    private static int numberOf(Set<String> names, Object value, Class<?>... general) {
        if (value instanceof SortedSet<?> set && set.comparator() != null
            || value instanceof SortedMap<?, ?> map && map.comparator() != null
            || value instanceof PriorityQueue<?> queue && queue.comparator() != null)
            leave(UNSUPPORTED, "an order of its own cannot be passed");
        int number = new ArrayList<>(names).indexOf(value.getClass().getSimpleName());
        if (number >= 0 && value.getClass().getName().startsWith("java.util.")) return number;
        for (int i = 0; i < general.length; i++) if (general[i].isInstance(value)) return i;
        leave(UNSUPPORTED, "values of " + value.getClass() + " cannot be passed");
        return 0;
    }

    private static void write(DataOutputStream to, Object value, int depth) throws IOException {
        if (depth > DEEPEST) leave(UNSUPPORTED, "values nested too deep cannot be passed");
        if (value == null) {
            to.writeByte('n');
        } else if (value instanceof Integer number) {
            to.writeByte('i');
            to.writeInt(number);
        } else if (value instanceof Long number) {
            to.writeByte('l');
            to.writeLong(number);
        } else if (value instanceof Double number) {
            to.writeByte('d');
            to.writeLong(Double.doubleToRawLongBits(number));
        } else if (value instanceof Float number) {
            to.writeByte('f');
            to.writeFloat(number);
        } else if (value instanceof Boolean truth) {
            to.writeByte('b');
            to.writeBoolean(truth);
        } else if (value instanceof Character character) {
            to.writeByte('c');
            to.writeChar(character);
        } else if (value instanceof Short number) {
            to.writeByte('s');
            to.writeShort(number);
        } else if (value instanceof Byte number) {
            to.writeByte('y');
            to.writeByte(number);
        } else if (value instanceof String text) {
            to.writeByte('t');
            to.writeInt(text.length());
            to.writeChars(text);
        } else if (value.getClass() == BigInteger.class || value.getClass() == BigDecimal.class) {
            to.writeByte(value instanceof BigInteger ? 'I' : 'D');
            write(to, value.toString(), depth + 1);
        } else if (value instanceof Optional<?> optional) {
            to.writeByte('o');
            write(to, optional.orElse(null), depth + 1);
        } else if (value instanceof OptionalInt optional) {
            to.writeByte('q');
            write(to, optional.isPresent() ? optional.getAsInt() : null, depth + 1);
        } else if (value instanceof OptionalDouble optional) {
            to.writeByte('Q');
            write(to, optional.isPresent() ? optional.getAsDouble() : null, depth + 1);
        } else if (value instanceof Map.Entry<?, ?> entry) {
            to.writeByte('e');
            write(to, entry.getKey(), depth + 1);
            write(to, entry.getValue(), depth + 1);
        } else if (value.getClass().isArray()) {
            int dimensions = 0;
            Class<?> type = value.getClass();
            for (; type.isArray(); type = type.getComponentType()) dimensions++;
            if (!COMPONENTS.contains(type)) leave(UNSUPPORTED, "arrays of " + type + " cannot be passed");
            to.writeByte('a');
            to.writeByte(COMPONENTS.indexOf(type));
            to.writeByte(dimensions);
            to.writeInt(Array.getLength(value));
            for (int i = 0; i < Array.getLength(value); i++) write(to, Array.get(value, i), depth + 1);
        } else if (value instanceof Map<?, ?> map) {
            to.writeByte('M');
            to.writeByte(numberOf(MAPS.keySet(), value, Map.class));
            write(to, new ArrayList<>(map.keySet()), depth + 1);
            write(to, new ArrayList<>(map.values()), depth + 1);
        } else if (value.getClass().getName().startsWith("org.javatuples.") && value instanceof Iterable<?> items) {
            to.writeByte('T');
            write(to, value.getClass().getSimpleName(), depth + 1);
            List<Object> all = new ArrayList<>();
            for (Object item : items) all.add(item);
            write(to, all, depth + 1);
        } else {
            boolean fixed = value.getClass() == FIXED;
            boolean constant = value.getClass().getName().startsWith("java.util.ImmutableCollections$List");
            to.writeByte(fixed ? 'F' : constant ? 'U' : 'C');
            to.writeByte(fixed || constant ? 0 : numberOf(COLLECTIONS.keySet(), value, List.class, Set.class, Queue.class));
            Object[] items = ((Collection<?>) value).toArray();
            to.writeInt(items.length);
            for (Object item : items) write(to, item, depth + 1);
        }
    }

    private static Object read(DataInputStream from, int depth) throws IOException {
        if (depth > DEEPEST) throw new IOException("nested too deep");
        char kind = (char) from.readByte();
        switch (kind) {
            case 'n': return null;
            case 'i': return from.readInt();
            case 'l': return from.readLong();
            case 'd': return Double.longBitsToDouble(from.readLong());
            case 'f': return from.readFloat();
            case 'b': return from.readBoolean();
            case 'c': return from.readChar();
            case 's': return from.readShort();
            case 'y': return from.readByte();
            case 't':
                char[] characters = new char[size(from)];
                for (int i = 0; i < characters.length; i++) characters[i] = from.readChar();
                return new String(characters).intern();
            case 'I': return new BigInteger((String) read(from, depth + 1));
            case 'D': return new BigDecimal((String) read(from, depth + 1));
            case 'o': return Optional.ofNullable(read(from, depth + 1));
            case 'q': return read(from, depth + 1) instanceof Integer number ? OptionalInt.of(number) : OptionalInt.empty();
            case 'Q':
                return read(from, depth + 1) instanceof Double number ? OptionalDouble.of(number) : OptionalDouble.empty();
            case 'e':
                Object key = read(from, depth + 1);
                return new AbstractMap.SimpleEntry<>(key, read(from, depth + 1));
            case 'T': return tuple((String) read(from, depth + 1), (List<?>) read(from, depth + 1));
            case 'a':
                Class<?> type = COMPONENTS.get(from.readByte());
                for (int left = from.readByte() - 1; left > 0; left--) type = type.arrayType();
                Object array = Array.newInstance(type, size(from));
                for (int i = 0; i < Array.getLength(array); i++) Array.set(array, i, read(from, depth + 1));
                return array;
            case 'M':
                Map<Object, Object> map = new ArrayList<>(MAPS.values()).get(from.readByte()).get();
                Iterator<?> keys = ((List<?>) read(from, depth + 1)).iterator();
                for (Object value : (List<?>) read(from, depth + 1)) map.put(keys.next(), value);
                return map;
            case 'C', 'F', 'U':
                Collection<Object> items = new ArrayList<>(COLLECTIONS.values()).get(from.readByte()).get();
                for (int left = size(from); left > 0; left--) items.add(read(from, depth + 1));
                return kind == 'F' ? Arrays.asList(items.toArray()) : kind == 'U' ? List.of(items.toArray()) : items;
        }
        throw new IOException("an unknown kind of value");
    }

    /** Whether no array, collection or map stands twice in the arguments. */
    private static boolean distinct(Object value, Set<Object> seen) {
        if (value == null || value instanceof String || value.getClass().getName().contains("ImmutableCollections"))
            return true;
        if (value instanceof Object[] items) {
            if (!seen.add(value)) return items.length == 0;
            return Arrays.stream(items).allMatch(item -> distinct(item, seen));
        }
        if (value.getClass().isArray()) return seen.add(value) || Array.getLength(value) == 0;
        Collection<?> items = value instanceof Collection<?> some ? some : value instanceof Map<?, ?> map ? map.values() : null;
        if (items == null || items.isEmpty()) return true;
        return seen.add(value) && items.stream().allMatch(item -> distinct(item, seen));
    }

    /** A tuple of the library javatuples, which a jar may hold. */
    private static Object tuple(String name, Collection<?> items) throws IOException {
        if (!TUPLES.contains(name)) throw new IOException("an unknown kind of tuple");
        try {
            return Class.forName("org.javatuples." + name).getMethod("fromCollection", Collection.class).invoke(null, items);
        } catch (ReflectiveOperationException | LinkageError wrong) {
            throw new IOException("a tuple that is none: " + wrong);
        }
    }

    /** A number of items, each of which takes at least one byte. */
    private static int size(DataInputStream from) throws IOException {
        int size = from.readInt();
        if (size < 0 || size > from.available()) throw new IOException("a frame that is too short");
        return size;
    }

    /** Makes of an argument what the candidate made of it. */
    @SuppressWarnings("unchecked")
    private static void restore(Object old, Object made) {
        if (old == null || made == null || old.equals(made)) return;
        if (old.getClass().isArray()) {
            for (int i = 0; i < Array.getLength(old); i++) {
                Object item = Array.get(made, i), before = Array.get(old, i);
                if (before != null && before.getClass().isArray()) restore(before, item);
                else Array.set(old, i, item);
            }
        } else if (old instanceof List<?> items && items.size() == ((List<?>) made).size()) {
            for (int i = 0; i < items.size(); i++) {
                Object item = ((List<?>) made).get(i), before = items.get(i);
                if (before instanceof List<?> && item instanceof List<?>) restore(before, item);
                else if (!Objects.equals(before, item)) ((List<Object>) items).set(i, item);
            }
        } else if (old instanceof Map<?, ?> map) {
            map.clear();
            ((Map<Object, Object>) map).putAll((Map<Object, Object>) made);
        } else if (old instanceof Collection<?> items) {
            items.clear();
            ((Collection<Object>) items).addAll((Collection<Object>) made);
        }
    }
}
