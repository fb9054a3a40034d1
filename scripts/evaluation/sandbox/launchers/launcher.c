// main() of a C++ test program: the tests' own main() has been renamed to stagecraft_tests. KEY comes from the judge.
#include <fcntl.h>
#include <unistd.h>

extern int stagecraft_tests(void);

int main(void) {
    const unsigned char key[16] = {KEY};
    unsigned char secret[16];
    int out = dup(1);
    if (read(0, secret, 16) != 16) return 97;
    int null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    dup2(null, 1);
    int code = stagecraft_tests();
    if (code) return code;
    for (int i = 0; i < 16; i++) secret[i] ^= key[i];
    _exit(write(out, secret, 16) == 16 ? 0 : 98);
}
