// Rust: passes calls of functions from the tests' program to the candidate's, and brings their results back.
//
// Both programs use this crate. The tests' program defines each function that it calls as a stub with `call`, the
// candidate's main is `serve`. A frame is its length (32 bits) and the values one after the other: the number of the
// function and its arguments; the result and the arguments that it may have changed. `open` turns standard input and
// output into the channel, and what anyone prints goes nowhere. What is read is checked: each program distrusts the
// other. References that the candidate is given are never freed.
use std::any::Any;
use std::collections::*;
use std::fs::File;
use std::hash::Hash;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Mutex;

// Exit codes, read by compiled_judge.py.
const GONE: i32 = 120;
const UNREADABLE: i32 = 121;
const UNSUPPORTED: i32 = 122;
const LONGEST: usize = 16 << 20;

static CHANNEL: Mutex<Option<(File, File)>> = Mutex::new(None);

extern "C" {
    fn dup2(from: i32, to: i32) -> i32;
    fn signal(number: i32, handler: usize) -> usize;
}

pub fn open() {
    let input = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let output = std::io::stdout().as_fd().try_clone_to_owned().unwrap();
    let nowhere = File::options().read(true).write(true).open("/dev/null").unwrap();
    unsafe {
        signal(13, 1); // SIGPIPE is ignored, also where Rust's own start has not run
        dup2(nowhere.as_raw_fd(), 0);
        dup2(nowhere.as_raw_fd(), 1);
    }
    *CHANNEL.lock().unwrap() = Some((input.into(), output.into()));
}

pub fn leave(code: i32, reason: &str) -> ! {
    if !reason.is_empty() {
        eprintln!("stagecraft: {reason}");
    }
    std::process::exit(code)
}

fn send(frame: &[u8]) {
    if frame.len() > LONGEST {
        leave(UNSUPPORTED, "values of more than 16 MB cannot be passed");
    }
    let bytes = [&(frame.len() as u32).to_le_bytes(), frame].concat();
    if CHANNEL.lock().unwrap().as_mut().unwrap().1.write_all(&bytes).is_err() {
        leave(GONE, "");
    }
}

fn receive() -> Reader {
    let mut channel = CHANNEL.lock().unwrap();
    let file = &mut channel.as_mut().unwrap().0;
    let mut size = [0; 4];
    if file.read_exact(&mut size).is_err() {
        leave(GONE, "");
    }
    let size = u32::from_le_bytes(size) as usize;
    if size > LONGEST {
        leave(UNREADABLE, "a frame of more than 16 MB");
    }
    let mut frame = vec![0; size];
    if file.read_exact(&mut frame).is_err() {
        leave(GONE, "");
    }
    Reader { frame, place: 0 }
}

pub struct Reader {
    frame: Vec<u8>,
    place: usize,
}

impl Reader {
    fn bytes(&mut self, size: usize) -> &[u8] {
        if size > self.frame.len() - self.place {
            leave(UNREADABLE, "a frame that is too short");
        }
        self.place += size;
        &self.frame[self.place - size..self.place]
    }
    fn byte(&mut self) -> u8 {
        self.bytes(1)[0]
    }
    /// A number of items, each of which takes at least one byte.
    fn size(&mut self) -> usize {
        let size = u32::take(self) as usize;
        if size > self.frame.len() - self.place {
            leave(UNREADABLE, "a frame that is too short");
        }
        size
    }
    fn end(&self) {
        if self.place != self.frame.len() {
            leave(UNREADABLE, "a frame that is too long");
        }
    }
}

/// What can be written, and, behind a `&mut`, be replaced by what the other program made of it.
#[diagnostic::on_unimplemented(message = "stagecraft: values of type `{Self}` cannot be passed")]
pub trait Give {
    fn give(&self, out: &mut Vec<u8>);
    fn restore(&mut self, _from: &mut Reader) {}
}

/// What can be read; `changed` collects how to write, after the call, what was given as `&mut`.
#[diagnostic::on_unimplemented(message = "stagecraft: values of type `{Self}` cannot be passed")]
pub trait Take: Sized + 'static {
    fn take(from: &mut Reader) -> Self;
    fn take_argument(from: &mut Reader, _changed: &mut Changed) -> Self {
        Self::take(from)
    }
}

type Changed = Vec<Box<dyn Fn(&mut Vec<u8>)>>;

macro_rules! numbers {
    ($($number:ty)*) => { $(
        impl Give for $number {
            fn give(&self, out: &mut Vec<u8>) { out.extend(self.to_le_bytes()) }
        }
        impl Take for $number {
            fn take(from: &mut Reader) -> Self {
                Self::from_le_bytes(from.bytes(std::mem::size_of::<Self>()).try_into().unwrap())
            }
        }
    )* };
}
numbers! { u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64 }

macro_rules! through {
    ($($value:ty, $self:ident => $given:expr, $from:ident => $taken:expr;)*) => { $(
        impl Give for $value {
            fn give(&$self, out: &mut Vec<u8>) { $given.give(out) }
        }
        impl Take for $value {
            fn take($from: &mut Reader) -> Self { $taken }
        }
    )* };
}
through! {
    bool, self => (*self as u8), from => from.byte() != 0;
    char, self => (*self as u32), from => char::from_u32(u32::take(from)).unwrap_or_else(|| leave(UNREADABLE, "no char"));
    (), self => { let _ = self; 0u8 }, from => { from.byte(); };
    String, self => self.as_str(), from => {
        let size = from.size();
        String::from_utf8(from.bytes(size).to_vec()).unwrap_or_else(|_| leave(UNREADABLE, "text that is not UTF-8"))
    };
}

impl Give for str {
    fn give(&self, out: &mut Vec<u8>) {
        (self.len() as u32).give(out);
        out.extend(self.as_bytes());
    }
}
impl<T: Give> Give for [T] {
    fn give(&self, out: &mut Vec<u8>) {
        (self.len() as u32).give(out);
        self.iter().for_each(|item| item.give(out));
    }
}
impl<T: Give, const N: usize> Give for [T; N] {
    fn give(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|item| item.give(out));
    }
}
impl<T: Take, const N: usize> Take for [T; N] {
    fn take(from: &mut Reader) -> Self {
        std::array::from_fn(|_| T::take(from))
    }
}

macro_rules! containers {
    ($($container:ident<$($item:ident),*>, $first:ident $(: $bound:ident $(+ $other:ident)?)?;)*) => { $(
        impl<$($item: Give),*> Give for $container<$($item),*> {
            #[allow(non_snake_case, unused_parens)]
            fn give(&self, out: &mut Vec<u8>) {
                (self.len() as u32).give(out);
                for ($($item),*) in self { $($item.give(out);)* }
            }
        }
        impl<$($item: Take),*> Take for $container<$($item),*> $(where $first: $bound $(+ $other)?)? {
            #[allow(unused_parens)]
            fn take(from: &mut Reader) -> Self {
                (0..from.size()).map(|_| ($($item::take(from)),*)).collect()
            }
        }
    )* };
}
containers! {
    Vec<T>, T;
    VecDeque<T>, T;
    LinkedList<T>, T;
    BinaryHeap<T>, T: Ord;
    BTreeSet<T>, T: Ord;
    BTreeMap<K, T>, K: Ord;
    HashSet<T>, T: Eq + Hash;
    HashMap<K, T>, K: Eq + Hash;
}

macro_rules! tuples {
    ($(($($item:ident)*))*) => { $(
        #[allow(non_snake_case)]
        impl<$($item: Give),*> Give for ($($item,)*) {
            fn give(&self, out: &mut Vec<u8>) { let ($($item,)*) = self; $($item.give(out);)* }
        }
        impl<$($item: Take),*> Take for ($($item,)*) {
            fn take(from: &mut Reader) -> Self { ($($item::take(from),)*) }
        }
    )* };
}
tuples! { (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) }

impl<T: Give> Give for Option<T> {
    fn give(&self, out: &mut Vec<u8>) {
        out.push(self.is_some() as u8);
        self.iter().for_each(|item| item.give(out));
    }
}
impl<T: Take> Take for Option<T> {
    fn take(from: &mut Reader) -> Self {
        (from.byte() != 0).then(|| T::take(from))
    }
}
impl<T: Give, E: Give> Give for Result<T, E> {
    fn give(&self, out: &mut Vec<u8>) {
        out.push(self.is_ok() as u8);
        match self {
            Ok(value) => value.give(out),
            Err(error) => error.give(out),
        }
    }
}
impl<T: Take, E: Take> Take for Result<T, E> {
    fn take(from: &mut Reader) -> Self {
        if from.byte() != 0 { Ok(T::take(from)) } else { Err(E::take(from)) }
    }
}

impl<T: Give + ?Sized> Give for Box<T> {
    fn give(&self, out: &mut Vec<u8>) {
        (**self).give(out)
    }
}
impl<T: Take> Take for Box<T> {
    fn take(from: &mut Reader) -> Self {
        Box::new(T::take(from))
    }
}
impl<T: Give + ?Sized> Give for &T {
    fn give(&self, out: &mut Vec<u8>) {
        (**self).give(out)
    }
}
impl<T: Take> Take for &'static T {
    fn take(from: &mut Reader) -> Self {
        Box::leak(Box::new(T::take(from)))
    }
}
impl Take for &'static str {
    fn take(from: &mut Reader) -> Self {
        String::take(from).leak()
    }
}
impl<T: Take> Take for &'static [T] {
    fn take(from: &mut Reader) -> Self {
        Vec::<T>::take(from).leak()
    }
}

impl<T: Give + Take> Give for &mut T {
    fn give(&self, out: &mut Vec<u8>) {
        (**self).give(out)
    }
    fn restore(&mut self, from: &mut Reader) {
        **self = T::take(from)
    }
}
impl<T: Give + Take> Give for &mut [T] {
    fn give(&self, out: &mut Vec<u8>) {
        (**self).give(out)
    }
    fn restore(&mut self, from: &mut Reader) {
        let items = Vec::<T>::take(from);
        if items.len() != self.len() {
            leave(UNREADABLE, "a slice of another length");
        }
        self.iter_mut().zip(items).for_each(|(old, new)| *old = new);
    }
}
macro_rules! changed {
    ($($kind:ty, $from:ident => $made:expr;)*) => { $(
        impl<T: Give + Take> Take for &'static mut $kind {
            fn take($from: &mut Reader) -> Self { $made }
            fn take_argument(from: &mut Reader, changed: &mut Changed) -> Self {
                let value = Self::take(from);
                let place: *const $kind = value;
                changed.push(Box::new(move |out| unsafe { (*place).give(out) })); // read after the call has ended
                value
            }
        }
    )* };
}
changed! {
    T, from => Box::leak(Box::new(T::take(from)));
    [T], from => Vec::<T>::take(from).leak();
}

macro_rules! any {
    ($($number:literal $known:ty,)*) => {
        impl Give for dyn Any {
            fn give(&self, out: &mut Vec<u8>) {
                $( if let Some(value) = self.downcast_ref::<$known>() { out.push($number); return value.give(out); } )*
                leave(UNSUPPORTED, "a `dyn Any` with a value of this type cannot be passed")
            }
        }
        impl Take for Box<dyn Any> {
            fn take(from: &mut Reader) -> Self {
                match from.byte() {
                    $( $number => Box::new(<$known as Take>::take(from)), )*
                    _ => leave(UNREADABLE, "an unknown type"),
                }
            }
        }
    };
}
any! {
    0 i32, 1 f64, 2 String, 3 &'static str, 4 char, 5 bool, 6 f32, 7 i64, 8 u32, 9 u64, 10 usize, 11 isize, 12 u8,
    13 i8, 14 i16, 15 u16, 16 i128, 17 u128, 18 (), 19 Vec<Box<dyn Any>>, 20 Vec<i32>, 21 Vec<f64>, 22 Vec<String>,
    23 Vec<&'static str>, 24 Option<i32>, 25 Option<String>,
}
impl Take for &'static dyn Any {
    fn take(from: &mut Reader) -> Self {
        Box::leak(Box::<dyn Any>::take(from))
    }
}

/// The tests' side: what the candidate's function of this number returns.
pub fn call<R: Take>(function: u8, arguments: &mut [&mut dyn Give]) -> R {
    let mut frame = vec![function];
    arguments.iter().for_each(|argument| argument.give(&mut frame));
    send(&frame);
    let mut reply = receive();
    let result = R::take(&mut reply);
    arguments.iter_mut().for_each(|argument| argument.restore(&mut reply));
    reply.end();
    result
}

/// What a test may return: nothing, or a failure.
pub trait Ended {
    fn check(self);
}
impl Ended for () {
    fn check(self) {}
}
impl<E: std::fmt::Debug> Ended for Result<(), E> {
    fn check(self) {
        self.unwrap()
    }
}
pub fn ended(test: impl Ended) {
    test.check()
}

/// One call, on the candidate's side.
pub struct Call {
    arguments: Reader,
    changed: Changed,
    pub reply: Vec<u8>,
}

impl Call {
    pub fn take<T: Take>(&mut self) -> T {
        T::take_argument(&mut self.arguments, &mut self.changed)
    }
}

/// The candidate's side: answers calls until the tests have ended. `run` calls the function of the number.
pub fn serve(run: fn(u8, &mut Call)) -> ! {
    open();
    loop {
        let mut call = Call { arguments: receive(), changed: Vec::new(), reply: Vec::new() };
        let function = call.arguments.byte();
        run(function, &mut call);
        call.changed.iter().for_each(|write| write(&mut call.reply));
        send(&call.reply);
    }
}
