/* Make chosen calls of the C library fail; see shim.py.
 *
 * `campaign_arm` sets the kind of fault, the first call that fails and the distance of later ones. Calls on
 * files count if the path begins with a prefix; thread starts and memory mappings always count. The library
 * intercepts calls through the dynamic linker only, so calls inside the C library (such as malloc's own
 * mappings) never fail.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NO_SPACE, IO_ERROR, SHORT_WRITE, NO_FSYNC, NO_RENAME, NO_THREAD, NO_MEMORY, NO_FILES, NOTHING = -1 };

static int fault = NOTHING;
static long first_call, every_call;
static char prefix[4096];
static atomic_long calls;

void campaign_arm(int which, long first, long every, const char *below)
{
    strncpy(prefix, below, sizeof prefix - 1);
    first_call = first;
    every_call = every;
    atomic_store(&calls, 0);
    fault = which;
}

static int must_fail(void)
{
    long past = atomic_fetch_add(&calls, 1) - first_call;
    return past == 0 || (past > 0 && (every_call == 0 || past % every_call == 0));
}

static int is_below(const char *path)
{
    return path != NULL && strncmp(path, prefix, strlen(prefix)) == 0;
}

static int is_ours(int descriptor)
{
    char name[64], path[4096];
    snprintf(name, sizeof name, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(name, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    return is_below(path);
}

#define REAL(name) \
    static __typeof__(name) *real; \
    if (real == NULL) \
        real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

static int write_fails(int descriptor, size_t *count)
{
    if (fault < NO_SPACE || fault > SHORT_WRITE || !is_ours(descriptor) || !must_fail())
        return 0;
    if (fault == SHORT_WRITE) {
        if (*count > 1)
            *count /= 2;
        return 0;
    }
    errno = fault == NO_SPACE ? ENOSPC : EIO;
    return 1;
}

ssize_t write(int descriptor, const void *data, size_t count)
{
    REAL(write);
    return write_fails(descriptor, &count) ? -1 : real(descriptor, data, count);
}

ssize_t pwrite(int descriptor, const void *data, size_t count, off_t offset)
{
    REAL(pwrite);
    return write_fails(descriptor, &count) ? -1 : real(descriptor, data, count, offset);
}

ssize_t pwrite64(int descriptor, const void *data, size_t count, off64_t offset)
{
    REAL(pwrite64);
    return write_fails(descriptor, &count) ? -1 : real(descriptor, data, count, offset);
}

ssize_t read(int descriptor, void *data, size_t count)
{
    REAL(read);
    if (fault == IO_ERROR && is_ours(descriptor) && must_fail()) {
        errno = EIO;
        return -1;
    }
    return real(descriptor, data, count);
}

int fsync(int descriptor)
{
    REAL(fsync);
    if (fault == NO_FSYNC && is_ours(descriptor) && must_fail()) {
        errno = EIO;
        return -1;
    }
    return real(descriptor);
}

int rename(const char *from, const char *to)
{
    REAL(rename);
    if (fault == NO_RENAME && is_below(to) && must_fail()) {
        errno = EIO;
        return -1;
    }
    return real(from, to);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
    REAL(renameat);
    if (fault == NO_RENAME && is_below(to) && must_fail()) {
        errno = EIO;
        return -1;
    }
    return real(from_folder, from, to_folder, to);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    REAL(pthread_create);
    if (fault == NO_THREAD && must_fail())
        return EAGAIN;
    return real(thread, attributes, run, argument);
}

void *mmap(void *address, size_t length, int protection, int flags, int descriptor, off_t offset)
{
    REAL(mmap);
    if (fault == NO_MEMORY && must_fail()) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return real(address, length, protection, flags, descriptor, offset);
}

void *mmap64(void *address, size_t length, int protection, int flags, int descriptor, off64_t offset)
{
    REAL(mmap64);
    if (fault == NO_MEMORY && must_fail()) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return real(address, length, protection, flags, descriptor, offset);
}

#define OPENED(name) \
    int name(const char *path, int flags, ...) \
    { \
        REAL(name); \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = va_arg(rest, mode_t); \
        va_end(rest); \
        if (fault == NO_FILES && is_below(path) && must_fail()) { \
            errno = EMFILE; \
            return -1; \
        } \
        return real(path, flags, mode); \
    }

OPENED(open)
OPENED(open64)
