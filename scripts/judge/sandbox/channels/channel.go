// Go: passes a call of the function under test from the tests' program to the candidate's, and brings its result back.
//
// Both programs import this package. The tests' program makes the function with Stub, the candidate's main() is Serve.
// A frame is its length (32 bits) and the values one after the other, the arguments, or the results and what became of
// the arguments. A nil slice or map is not an empty one; a value in an interface is preceded by its type. When the
// package is initialised, standard input and output become the channel, and what anyone prints goes nowhere. What is
// read is checked: each program distrusts the other.
package stagecraft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"reflect"
	"sort"
	"syscall"
)

// Exit codes, read by compiled_judge.py.
const (
	gone        = 120
	unreadable  = 121
	unsupported = 122
	failed      = 97
)

const longest = 16 << 20
const deepest = 100 // levels of types and values in interfaces

var incoming, outgoing *os.File

func init() {
	in, _ := syscall.Dup(0)
	out, _ := syscall.Dup(1)
	syscall.CloseOnExec(in)
	syscall.CloseOnExec(out)
	incoming, outgoing = os.NewFile(uintptr(in), "incoming"), os.NewFile(uintptr(out), "outgoing")
	nowhere, _ := os.OpenFile("/dev/null", os.O_RDWR, 0)
	syscall.Dup3(int(nowhere.Fd()), 0, 0)
	syscall.Dup3(int(nowhere.Fd()), 1, 0)
}

func leave(code int, reason string) {
	if reason != "" {
		fmt.Fprintln(os.Stderr, "stagecraft:", reason)
	}
	os.Exit(code)
}

func send(frame []byte) {
	if len(frame) > longest {
		leave(unsupported, "values of more than 16 MB cannot be passed")
	}
	size := binary.LittleEndian.AppendUint32(nil, uint32(len(frame)))
	if _, err := outgoing.Write(append(size, frame...)); err != nil {
		leave(gone, "")
	}
}

func receive() *reader {
	var size [4]byte
	if _, err := io.ReadFull(incoming, size[:]); err != nil {
		leave(gone, "")
	}
	length := binary.LittleEndian.Uint32(size[:])
	if length > longest {
		leave(unreadable, "a frame of more than 16 MB")
	}
	frame := make([]byte, length)
	if _, err := io.ReadFull(incoming, frame); err != nil {
		leave(gone, "")
	}
	return &reader{frame}
}

type reader struct{ frame []byte }

func (r *reader) bytes(size int) []byte {
	if size > len(r.frame) {
		leave(unreadable, "a frame that is too short")
	}
	part := r.frame[:size]
	r.frame = r.frame[size:]
	return part
}
func (r *reader) byte() byte     { return r.bytes(1)[0] }
func (r *reader) number() uint64 { return binary.LittleEndian.Uint64(r.bytes(8)) }

// The number of items that follow, each of which takes at least one byte.
func (r *reader) size() int {
	size := r.number()
	if size > uint64(len(r.frame)) {
		leave(unreadable, "a frame that is too short")
	}
	return int(size)
}
func (r *reader) end() {
	if len(r.frame) != 0 {
		leave(unreadable, "a frame that is too long")
	}
}

var (
	anything = reflect.TypeOf((*interface{})(nil)).Elem()
	failure  = reflect.TypeOf((*error)(nil)).Elem()
	plain    = map[reflect.Kind]reflect.Type{}
)

func init() {
	for _, value := range []interface{}{false, 0, int8(0), int16(0), int32(0), int64(0), uint(0), uint8(0), uint16(0),
		uint32(0), uint64(0), uintptr(0), float32(0), float64(0), complex64(0), complex128(0), ""} {
		plain[reflect.TypeOf(value).Kind()] = reflect.TypeOf(value)
	}
}

// check leaves if values of a type cannot be passed.
func check(t reflect.Type, depth int) {
	switch {
	case depth < deepest && (t == anything || t == failure || plain[t.Kind()] == t):
		return
	case depth < deepest && t.Name() == "":
		switch t.Kind() {
		case reflect.Map:
			check(t.Key(), depth+1)
			fallthrough
		case reflect.Slice, reflect.Array, reflect.Ptr:
			check(t.Elem(), depth+1)
			return
		}
	}
	leave(unsupported, fmt.Sprintf("values of type %s cannot be passed", t))
}

func number(out []byte, value uint64) []byte { return binary.LittleEndian.AppendUint64(out, value) }

// write appends a value of a type that `check` has let through.
func write(out []byte, v reflect.Value) []byte {
	switch t := v.Type(); t.Kind() {
	case reflect.Bool:
		if v.Bool() {
			return append(out, 1)
		}
		return append(out, 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return number(out, uint64(v.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return number(out, v.Uint())
	case reflect.Float32, reflect.Float64:
		return number(out, math.Float64bits(v.Float()))
	case reflect.Complex64, reflect.Complex128:
		return number(number(out, math.Float64bits(real(v.Complex()))), math.Float64bits(imag(v.Complex())))
	case reflect.String:
		return append(number(out, uint64(v.Len())), v.String()...)
	case reflect.Array:
		for i := 0; i < v.Len(); i++ {
			out = write(out, v.Index(i))
		}
		return out
	default:
		if v.IsNil() {
			return append(out, 0)
		}
		out = append(out, 1)
		switch t.Kind() {
		case reflect.Slice:
			out = number(out, uint64(v.Len()))
			for i := 0; i < v.Len(); i++ {
				out = write(out, v.Index(i))
			}
			return out
		case reflect.Map:
			out = number(out, uint64(v.Len()))
			for entries := v.MapRange(); entries.Next(); {
				out = write(write(out, entries.Key()), entries.Value())
			}
			return out
		case reflect.Ptr:
			return write(out, v.Elem())
		}
		if t == failure {
			return write(out, reflect.ValueOf(v.Interface().(error).Error()))
		}
		check(v.Elem().Type(), 0)
		return write(writeType(out, v.Elem().Type()), v.Elem())
	}
}

func read(r *reader, t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	switch t.Kind() {
	case reflect.Bool:
		v.SetBool(r.byte() != 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(r.number()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		v.SetUint(r.number())
	case reflect.Float32, reflect.Float64:
		v.SetFloat(math.Float64frombits(r.number()))
	case reflect.Complex64, reflect.Complex128:
		real := math.Float64frombits(r.number())
		v.SetComplex(complex(real, math.Float64frombits(r.number())))
	case reflect.String:
		v.SetString(string(r.bytes(r.size())))
	case reflect.Array:
		for i := 0; i < v.Len(); i++ {
			v.Index(i).Set(read(r, t.Elem()))
		}
	default:
		if r.byte() == 0 {
			return v
		}
		switch {
		case t.Kind() == reflect.Slice:
			v.Set(reflect.MakeSlice(t, 0, 0))
			for left := r.size(); left > 0; left-- {
				v.Set(reflect.Append(v, read(r, t.Elem())))
			}
		case t.Kind() == reflect.Map:
			v.Set(reflect.MakeMap(t))
			for left := r.size(); left > 0; left-- {
				key := read(r, t.Key())
				v.SetMapIndex(key, read(r, t.Elem()))
			}
		case t.Kind() == reflect.Ptr:
			v.Set(reflect.New(t.Elem()))
			v.Elem().Set(read(r, t.Elem()))
		case t == failure:
			v.Set(reflect.ValueOf(errors.New(read(r, plain[reflect.String]).String())))
		default:
			v.Set(read(r, readType(r, 0)))
		}
	}
	return v
}

func writeType(out []byte, t reflect.Type) []byte {
	out = append(out, byte(t.Kind()))
	switch t.Kind() {
	case reflect.Array:
		return writeType(number(out, uint64(t.Len())), t.Elem())
	case reflect.Map:
		return writeType(writeType(out, t.Key()), t.Elem())
	case reflect.Slice, reflect.Ptr:
		return writeType(out, t.Elem())
	}
	return out
}

// readType panics if there is no such type; `answered` turns this into an exit code.
func readType(r *reader, depth int) reflect.Type {
	kind := reflect.Kind(r.byte())
	if depth > deepest {
		panic("types nested too deep")
	}
	switch kind {
	case reflect.Interface:
		return anything
	case reflect.Slice:
		return reflect.SliceOf(readType(r, depth+1))
	case reflect.Ptr:
		return reflect.PtrTo(readType(r, depth+1))
	case reflect.Array:
		return reflect.ArrayOf(r.size(), readType(r, depth+1)) // an empty item may take no byte: `size` bounds memory
	case reflect.Map:
		key := readType(r, depth+1)
		return reflect.MapOf(key, readType(r, depth+1))
	}
	return plain[kind]
}

// restore makes of an argument what the candidate made of it.
func restore(old, made reflect.Value) {
	switch old.Kind() {
	case reflect.Slice:
		for i := 0; i < old.Len() && i < made.Len(); i++ {
			if inner := old.Index(i); inner.Kind() == reflect.Slice && inner.Len() == made.Index(i).Len() {
				restore(inner, made.Index(i))
			} else {
				inner.Set(made.Index(i))
			}
		}
	case reflect.Map:
		if old.IsNil() {
			return
		}
		for _, key := range old.MapKeys() {
			old.SetMapIndex(key, reflect.Value{})
		}
		for entries := made.MapRange(); entries.Next(); {
			old.SetMapIndex(entries.Key(), entries.Value())
		}
	case reflect.Ptr:
		if !old.IsNil() && !made.IsNil() {
			old.Elem().Set(made.Elem())
		}
	}
}

func checked(t reflect.Type) reflect.Type {
	for i := 0; i < t.NumIn(); i++ {
		check(t.In(i), 0)
	}
	for i := 0; i < t.NumOut(); i++ {
		check(t.Out(i), 0)
	}
	return t
}

// A part of the memory: from its first byte to the one behind its last.
type span struct{ from, to uintptr }

// spans appends the memory of the slices, maps and pointers in a value.
func spans(memory []span, value reflect.Value) []span {
	switch value.Kind() {
	case reflect.Slice:
		if value.Len() > 0 {
			size := uintptr(value.Len()) * value.Type().Elem().Size()
			memory = append(memory, span{value.Pointer(), value.Pointer() + size})
		}
		for i := 0; i < value.Len(); i++ {
			memory = spans(memory, value.Index(i))
		}
	case reflect.Map:
		if !value.IsNil() {
			memory = append(memory, span{value.Pointer(), value.Pointer() + 1})
		}
	case reflect.Ptr:
		if !value.IsNil() {
			memory = append(memory, span{value.Pointer(), value.Pointer() + value.Type().Elem().Size()})
		}
	case reflect.Interface:
		return spans(memory, value.Elem())
	}
	return memory
}

// overlap says whether two arguments, or parts of them, share memory.
func overlap(arguments []reflect.Value) bool {
	var memory []span
	for _, argument := range arguments {
		memory = spans(memory, argument)
	}
	sort.Slice(memory, func(i, j int) bool { return memory[i].from < memory[j].from })
	for i := 1; i < len(memory); i++ {
		if memory[i].from < memory[i-1].to {
			return true
		}
	}
	return false
}

// Stub is the tests' side: it makes a function whose calls the candidate answers.
func Stub(function interface{}) {
	f := reflect.ValueOf(function).Elem()
	t := checked(f.Type())
	f.Set(reflect.MakeFunc(t, func(arguments []reflect.Value) []reflect.Value {
		var frame []byte
		for _, argument := range arguments {
			frame = write(frame, argument)
		}
		send(frame)
		reply := receive()
		defer func() {
			if wrong := recover(); wrong != nil { // of an impossible type, or a key that cannot be hashed
				leave(unreadable, fmt.Sprint(wrong))
			}
		}()
		results := make([]reflect.Value, t.NumOut())
		for i := range results {
			results[i] = read(reply, t.Out(i))
		}
		shared := overlap(arguments)
		for i, argument := range arguments {
			made := read(reply, t.In(i))
			if shared && !reflect.DeepEqual(argument.Interface(), made.Interface()) {
				leave(unsupported, "arguments share memory that the program changes")
			}
			restore(argument, made)
		}
		reply.end()
		return results
	}))
}

// Serve is the candidate's side: it answers calls until the tests have ended.
func Serve(function interface{}) {
	f := reflect.ValueOf(function)
	t := checked(f.Type())
	for {
		call, arguments := receive(), make([]reflect.Value, t.NumIn())
		for i := range arguments {
			arguments[i] = read(call, t.In(i))
		}
		var reply []byte
		run := f.Call
		if t.IsVariadic() {
			run = f.CallSlice
		}
		for _, result := range run(arguments) {
			reply = write(reply, result)
		}
		for _, argument := range arguments {
			reply = write(reply, argument)
		}
		send(reply)
	}
}

// T stands in for testing.T: the first failure ends the program.
type T struct{ Test string }

func (t *T) Errorf(format string, values ...interface{}) {
	leave(failed, fmt.Sprintf("--- FAIL: "+format, values...))
}
func (t *T) Fatalf(format string, values ...interface{}) { t.Errorf(format, values...) }
func (t *T) Error(values ...interface{})                 { t.Errorf("%v", values) }
func (t *T) Fatal(values ...interface{})                 { t.Errorf("%v", values) }
func (t *T) Fail()                                       { t.Errorf("%s", t.Test) }
func (t *T) FailNow()                                    { t.Errorf("%s", t.Test) }
func (t *T) Log(values ...interface{})                   {}
func (t *T) Logf(format string, values ...interface{})   {}
func (t *T) Helper()                                     {}
func (t *T) Name() string                                { return t.Test }
func (t *T) Run(name string, test func(*T)) bool {
	test(&T{name})
	return true
}
