// C++: passes a call of the function under test from the tests' program to the candidate's, and brings its result back.
//
// Both programs include this header. The tests' program defines the function as a stub with Remote<...>::call, the
// candidate's main() is serve(). A frame is its length (32 bits) and the values one after the other, as Value<T> writes
// them: numbers as their bytes, containers as their size and items. At the start standard input and output become the
// channel, and what anyone prints goes nowhere. What is read is checked: each program distrusts the other.
#pragma once
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <any>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <algorithm>
#include <deque>
#include <initializer_list>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

namespace stagecraft {

// Exit codes, read by cpp_judge.py.
constexpr int GONE = 120, UNREADABLE = 121, UNSUPPORTED = 122;
constexpr std::uint32_t LONGEST = 16 << 20;

inline int incoming, outgoing;

// Before any other constructor: one that prints would otherwise write into the channel.
__attribute__((constructor(101))) static void open_channel() {
    if (incoming) return;
    signal(SIGPIPE, SIG_IGN);
    incoming = fcntl(0, F_DUPFD_CLOEXEC, 3);
    outgoing = fcntl(1, F_DUPFD_CLOEXEC, 3);
    int nowhere = open("/dev/null", O_RDWR);
    dup2(nowhere, 0);
    dup2(nowhere, 1);
}

[[noreturn]] inline void leave(int code, const char* reason = nullptr) {
    if (reason) fprintf(stderr, "stagecraft: %s\n", reason);
    _exit(code);
}

using Frame = std::string;

inline void send(const Frame& frame) {
    if (frame.size() > LONGEST) leave(UNSUPPORTED, "values of more than 16 MB cannot be passed");
    std::uint32_t size = frame.size();
    Frame bytes(reinterpret_cast<const char*>(&size), sizeof size);
    bytes += frame;
    for (std::size_t sent = 0; sent < bytes.size();) {
        ssize_t count = ::write(outgoing, bytes.data() + sent, bytes.size() - sent);
        if (count <= 0) leave(GONE);
        sent += count;
    }
}

inline void receive(char* bytes, std::size_t size) {
    while (size) {
        ssize_t count = ::read(incoming, bytes, size);
        if (count <= 0) leave(GONE);
        bytes += count, size -= count;
    }
}

class Reader {
    Frame frame;
    std::size_t position = 0;

public:
    Reader() {
        std::uint32_t size;
        receive(reinterpret_cast<char*>(&size), sizeof size);
        if (size > LONGEST) leave(UNREADABLE, "a frame of more than 16 MB");
        frame.resize(size);
        receive(frame.data(), size);
    }
    const char* bytes(std::size_t size) {
        if (size > frame.size() - position) leave(UNREADABLE, "a frame that is too short");
        return frame.data() + std::exchange(position, position + size);
    }
    template <class T> T plain() {
        T value;
        memcpy(&value, bytes(sizeof value), sizeof value);
        return value;
    }
    std::uint32_t size() {  // of items, each of which takes at least one byte
        auto items = plain<std::uint32_t>();
        if (items > frame.size() - position) leave(UNREADABLE, "a frame that is too short");
        return items;
    }
    void end() {
        if (position != frame.size()) leave(UNREADABLE, "a frame that is too long");
    }
};

inline void write_size(Frame& out, std::size_t size) {
    if (size > LONGEST) leave(UNSUPPORTED, "values of more than 16 MB cannot be passed");
    std::uint32_t bytes = size;
    out.append(reinterpret_cast<const char*>(&bytes), sizeof bytes);
}

template <class T> using Bare = std::remove_cv_t<std::remove_reference_t<T>>;

// How values of a type are written and read; types without a specialization cannot be passed.
template <class T, class = void> struct Value {
    static_assert(sizeof(T) == 0, "stagecraft: values of this type cannot be passed");
};

template <class T> void write(Frame& out, const T& value) { Value<Bare<T>>::write(out, value); }
template <class T> T read(Reader& in) { return Value<T>::read(in); }

template <class T> struct Value<T, std::enable_if_t<std::is_arithmetic_v<T>>> {
    static void write(Frame& out, T value) { out.append(reinterpret_cast<const char*>(&value), sizeof value); }
    static T read(Reader& in) {
        if constexpr (std::is_same_v<T, bool>) return in.plain<char>() != 0;
        else return in.plain<T>();
    }
};

template <> struct Value<std::monostate> {
    static void write(Frame& out, std::monostate) { out += '\0'; }
    static std::monostate read(Reader& in) { return in.bytes(1), std::monostate(); }
};

template <> struct Value<std::string> {
    static void write(Frame& out, const std::string& value) {
        write_size(out, value.size());
        out += value;
    }
    static std::string read(Reader& in) {
        auto size = in.size();
        return std::string(in.bytes(size), size);
    }
};

template <> struct Value<const char*> {
    static void write(Frame& out, const char* value) {
        out += value ? '\1' : '\0';
        if (value) Value<std::string>::write(out, value);
    }
    static const char* read(Reader& in) {
        return in.plain<char>() ? strdup(Value<std::string>::read(in).c_str()) : nullptr;
    }
};

// Containers, read item by item: no size that was sent reserves memory.
template <class T, class Item> struct Items {
    static void write(Frame& out, const T& value) {
        write_size(out, std::distance(value.begin(), value.end()));
        for (const auto& item : value) Value<Item>::write(out, item);
    }
    static T read(Reader& in) {
        T value;
        for (auto left = in.size(); left; left--) value.insert(value.end(), Value<Item>::read(in));
        return value;
    }
};
template <class T> struct Value<std::vector<T>> : Items<std::vector<T>, T> {};
template <class T> struct Value<std::list<T>> : Items<std::list<T>, T> {};
template <class T> struct Value<std::deque<T>> : Items<std::deque<T>, T> {};
template <class T> struct Value<std::set<T>> : Items<std::set<T>, T> {};
template <class T> struct Value<std::multiset<T>> : Items<std::multiset<T>, T> {};
template <class T> struct Value<std::unordered_set<T>> : Items<std::unordered_set<T>, T> {};
template <class K, class T> struct Value<std::map<K, T>> : Items<std::map<K, T>, std::pair<K, T>> {};
template <class K, class T> struct Value<std::multimap<K, T>> : Items<std::multimap<K, T>, std::pair<K, T>> {};
template <class K, class T>
struct Value<std::unordered_map<K, T>> : Items<std::unordered_map<K, T>, std::pair<K, T>> {};

template <class T, std::size_t N> struct Value<std::array<T, N>> {
    static void write(Frame& out, const std::array<T, N>& value) {
        for (const T& item : value) Value<T>::write(out, item);
    }
    static std::array<T, N> read(Reader& in) {
        std::array<T, N> value;
        for (T& item : value) item = Value<T>::read(in);
        return value;
    }
};

template <class... T> struct Value<std::tuple<T...>> {
    static void write(Frame& out, const std::tuple<T...>& value) {
        out += '\0';  // takes a byte even if there are no items
        std::apply([&](const T&... items) { (Value<T>::write(out, items), ...); }, value);
    }
    static std::tuple<T...> read(Reader& in) {
        in.bytes(1);
        return std::tuple<T...>{Value<T>::read(in)...};
    }
};

template <class A, class B> struct Value<std::pair<A, B>> {
    static void write(Frame& out, const std::pair<A, B>& value) {
        Value<A>::write(out, value.first);
        Value<B>::write(out, value.second);
    }
    static std::pair<A, B> read(Reader& in) { return std::pair<A, B>{Value<A>::read(in), Value<B>::read(in)}; }
};

template <class T> struct Value<std::optional<T>> {
    static void write(Frame& out, const std::optional<T>& value) {
        out += value ? '\1' : '\0';
        if (value) Value<T>::write(out, *value);
    }
    static std::optional<T> read(Reader& in) {
        return in.plain<char>() ? std::optional<T>(Value<T>::read(in)) : std::nullopt;
    }
};

// Reads the value whose type has the given number among T...
template <class Result, class... T> Result read_one(Reader& in, unsigned number) {
    Result (*readers[])(Reader&) = {[](Reader& from) -> Result { return Value<T>::read(from); }...};
    if (number >= sizeof...(T)) leave(UNREADABLE, "an unknown type");
    return readers[number](in);
}

template <class... T> struct Value<std::variant<T...>> {
    static void write(Frame& out, const std::variant<T...>& value) {
        out += static_cast<char>(value.index());
        std::visit([&](const auto& item) { stagecraft::write(out, item); }, value);
    }
    static std::variant<T...> read(Reader& in) {
        unsigned char number = in.plain<char>();
        return read_one<std::variant<T...>, T...>(in, number);
    }
};

// std::any and boost::any: what holds a value of some type and tells which.
template <class T, class... Known> struct Any {
    static void write(Frame& out, const T& value) {
        using std::any_cast;  // and boost's, which is found by the type of the argument
        unsigned char number = 0;
        if (value.type() == typeid(void)) return void(out += '\0');
        bool known = (... || (++number, value.type() == typeid(Known) &&
                              (out += number, Value<Known>::write(out, *any_cast<Known>(&value)), true)));
        if (!known) leave(UNSUPPORTED, "an `any` with a value of this type cannot be passed");
    }
    static T read(Reader& in) {
        unsigned char number = in.plain<char>();
        return number ? read_one<T, Known...>(in, number - 1) : T();
    }
};
template <class T>
struct Value<T, std::enable_if_t<std::is_same_v<decltype(std::declval<const T&>().type()), const std::type_info&>>>
    : Any<T, int, double, std::string, bool, char, float, long, long long, unsigned, unsigned long, unsigned long long,
          const char*, std::vector<int>, std::vector<double>, std::vector<float>, std::vector<std::string>> {};

// Whether a function can change an argument that is passed to a parameter of this type.
template <class A> constexpr bool CHANGED = std::is_lvalue_reference_v<A> && !std::is_const_v<std::remove_reference_t<A>>;

template <class A> void write_changed(Frame& out, const Bare<A>& argument) {
    if constexpr (CHANGED<A>) write(out, argument);
}
template <class A> void read_changed(Reader& in, std::remove_reference_t<A>& argument) {
    if constexpr (CHANGED<A>) argument = read<Bare<A>>(in);
}

// Where an argument lies that the function can share with another: of a reference or a pointer.
template <class A, class T> const void* shared_address(T& argument) {
    if constexpr (std::is_pointer_v<Bare<A>>) return argument;
    else if constexpr (std::is_reference_v<A>) return &argument;
    else return nullptr;
}

inline bool twice(std::initializer_list<const void*> addresses) {
    for (auto address = addresses.begin(); address != addresses.end(); ++address)
        if (*address && std::find(address + 1, addresses.end(), *address) != addresses.end()) return true;
    return false;
}

// The tests' side. F is the type of a pointer to the function.
template <class F> struct Remote;
template <class R, class... A> struct Remote<R (*)(A...)> {
    static R call(std::remove_reference_t<A>&... arguments) {
        Frame frame;
        (write(frame, arguments), ...);
        send(frame);
        Reader reply;
        auto finish = [&] {
            bool shared = twice({shared_address<A>(arguments)...});
            (read_changed<A>(reply, arguments), ...);
            reply.end();
            Frame changed;
            if (shared) (write(changed, arguments), ...);
            if (shared && changed != frame) leave(UNSUPPORTED, "two arguments are one object, which the program changes");
        };
        if constexpr (std::is_void_v<R>) {
            finish();
        } else {
            auto* result = new Bare<R>(read<Bare<R>>(reply));  // never freed: R may be a reference
            finish();
            return static_cast<R>(*result);
        }
    }
};

// The candidate's side: answers calls until the tests have ended.
template <class R, class... A> [[noreturn]] void serve(R (*function)(A...)) {
    for (;;) {
        Reader call;
        std::tuple<Bare<A>...> arguments{read<Bare<A>>(call)...};
        Frame reply;
        std::apply(
            [&](Bare<A>&... items) {
                if constexpr (std::is_void_v<R>) function(static_cast<A&&>(items)...);
                else write(reply, static_cast<const Bare<R>&>(function(static_cast<A&&>(items)...)));
                (write_changed<A>(reply, items), ...);
            },
            arguments);
        send(reply);
    }
}

}  // namespace stagecraft
