// Records what a process does to the files below one folder. It is preloaded into the process and replaces the functions of the C library
// that write and sync: each does what the original does, and appends one record to a log if the call has succeeded.
//
// A mutex keeps the records of a process in the order of its calls. Other processes append to the same log, each record by one write(2), so
// that no record interrupts another.
//
// Not recorded: writes through a memory map, through a duplicate of a descriptor, or by functions that are not replaced here. The reader of
// the log compares the replayed files with the real ones, and fails if something was missed.
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { CREATE = 1, WRITE, CUT, SYNC, RENAME, UNLINK };

// The head of a record; the bytes follow it. Its reader is event.rs.
struct header {
    uint64_t kind, file, offset, length;
};

#define MAX_FILES 65536
static uint64_t inode_of[MAX_FILES]; // of each descriptor that is recorded; 0 where none is
static char is_stream[MAX_FILES];    // whether the C library writes to it behind these calls
static char folder[PATH_MAX];
static size_t folder_length;
static int record_log = -1;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void lock(void) { pthread_mutex_lock(&mutex); }
static void unlock(void) { pthread_mutex_unlock(&mutex); }

static void fail(const char *why) {
    dprintf(2, "recorder: %s: %s\n", why, strerror(errno));
    _exit(70);
}

__attribute__((constructor)) static void begin(void) {
    const char *where = getenv("MEMORY_RECORD_FOLDER"), *log = getenv("MEMORY_RECORD_LOG");
    if (!where || !log) return;
    if (!realpath(where, folder)) fail("the folder is not there");
    folder_length = strlen(folder);
    record_log = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_APPEND | O_CLOEXEC, 0);
    if (record_log < 0) fail("the log can't be opened");
    // A child that is forked while another thread writes needs an unlocked mutex.
    pthread_atfork(lock, unlock, unlock);
}

static void record(enum kind kind, uint64_t file, uint64_t offset, const struct iovec *parts, int count) {
    struct iovec all[IOV_MAX];
    struct header header = {kind, file, offset, 0};
    if (count >= IOV_MAX) fail("too many parts");
    all[0] = (struct iovec){&header, sizeof header};
    for (int part = 0; part < count; part++) {
        all[part + 1] = parts[part];
        header.length += parts[part].iov_len;
    }
    if (syscall(SYS_writev, record_log, all, count + 1) != (long)(sizeof header + header.length)) fail("the log can't be written");
}

static void record_bytes(enum kind kind, uint64_t file, uint64_t offset, const void *bytes, size_t length) {
    struct iovec part = {(void *)bytes, length};
    record(kind, file, offset, &part, 1);
}

// The name of a path relative to the folder; null if it is outside.
static const char *name_in_folder(const char *path) {
    int is_below = record_log >= 0 && !strncmp(path, folder, folder_length) && path[folder_length] == '/';
    return is_below ? path + folder_length + 1 : NULL;
}

static uint64_t recorded(int fd) { return fd >= 0 && fd < MAX_FILES ? inode_of[fd] : 0; }

static int is_there(int at, const char *path) {
    int before = errno, found = !faccessat(at, path, F_OK, 0);
    errno = before;
    return found;
}

// Begins to record a file that was just opened. Called with the lock held.
static void opened(int fd, int was_there, int is_cut) {
    char link[64], path[PATH_MAX];
    struct stat status;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0 || fstat(fd, &status)) return;
    path[length] = 0;
    int is_folder = S_ISDIR(status.st_mode) && !strcmp(path, folder);
    const char *name = is_folder ? "" : name_in_folder(path);
    if (!name || !(S_ISREG(status.st_mode) || S_ISDIR(status.st_mode))) return;
    if (fd >= MAX_FILES) fail("too many descriptors");
    inode_of[fd] = status.st_ino;
    is_stream[fd] = 0;
    if (!was_there) record_bytes(CREATE, status.st_ino, 0, name, strlen(name));
    if (was_there && is_cut) record(CUT, status.st_ino, 0, NULL, 0);
}

static int open_at(int at, const char *path, int flags, mode_t mode) {
    if (record_log < 0) return syscall(SYS_openat, at, path, flags, mode);
    lock();
    int was_there = !(flags & O_CREAT) || is_there(at, path);
    int fd = syscall(SYS_openat, at, path, flags, mode), error = errno;
    if (fd >= 0) opened(fd, was_there, flags & O_TRUNC);
    unlock();
    errno = error;
    return fd;
}

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | __O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

int open(const char *path, int flags, ...) { MODE(flags) return open_at(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return open_at(AT_FDCWD, path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE(flags) return open_at(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE(flags) return open_at(at, path, flags, mode); }
int __open_2(const char *path, int flags) { return open_at(AT_FDCWD, path, flags, 0); }
int __open64_2(const char *path, int flags) { return open_at(AT_FDCWD, path, flags, 0); }
int creat(const char *path, mode_t mode) { return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return creat(path, mode); }

static FILE *open_stream(const char *symbol, const char *path, const char *mode) {
    FILE *(*real)(const char *, const char *) = (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, symbol);
    if (record_log < 0) return real(path, mode);
    lock();
    int was_there = is_there(AT_FDCWD, path);
    FILE *stream = real(path, mode);
    int error = errno;
    if (stream) {
        opened(fileno(stream), was_there, mode[0] == 'w');
        if (recorded(fileno(stream)) && mode[0] != 'r') is_stream[fileno(stream)] = 1;
    }
    unlock();
    errno = error;
    return stream;
}

FILE *fopen(const char *path, const char *mode) { return open_stream("fopen", path, mode); }
FILE *fopen64(const char *path, const char *mode) { return open_stream("fopen64", path, mode); }

// Records what a stream has written so far as one write: the C library writes it by internal calls. Called with the lock held.
static void record_stream(int fd) {
    char link[64];
    struct stat status;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int reader = syscall(SYS_openat, AT_FDCWD, link, O_RDONLY | O_CLOEXEC, 0);
    if (reader < 0 || fstat(fd, &status)) fail("a stream can't be read");
    char *content = malloc(status.st_size + 1);
    ssize_t length = content ? pread(reader, content, status.st_size, 0) : -1;
    if (length != status.st_size) fail("a stream can't be read");
    record_bytes(WRITE, recorded(fd), 0, content, length);
    free(content);
    syscall(SYS_close, reader);
}

int fclose(FILE *stream) {
    int (*real)(FILE *) = (int (*)(FILE *))dlsym(RTLD_NEXT, "fclose");
    int fd = record_log < 0 ? -1 : fileno(stream);
    if (!recorded(fd)) return real(stream);
    lock();
    if (is_stream[fd] && !fflush(stream)) record_stream(fd);
    inode_of[fd] = is_stream[fd] = 0;
    int result = real(stream);
    unlock();
    return result;
}

int close(int fd) {
    if (!recorded(fd)) return syscall(SYS_close, fd);
    lock();
    inode_of[fd] = is_stream[fd] = 0;
    int result = syscall(SYS_close, fd);
    unlock();
    return result;
}

// Records that the first `written` bytes of these parts went to `offset`, or, if that is negative, to right before the position of the
// descriptor. Called with the lock held.
static void record_written(int fd, const struct iovec *parts, int count, ssize_t written, off_t offset) {
    struct iovec done[IOV_MAX];
    int used = 0;
    size_t left = written;
    for (; used < count && left; used++) {
        done[used] = parts[used];
        if (done[used].iov_len > left) done[used].iov_len = left;
        left -= done[used].iov_len;
    }
    if (offset < 0) offset = syscall(SYS_lseek, fd, 0, SEEK_CUR) - written;
    record(WRITE, recorded(fd), offset, done, used);
}

static ssize_t write_parts(int fd, const struct iovec *parts, int count, off_t offset) {
    if (recorded(fd)) lock();
    ssize_t written = offset < 0 ? syscall(SYS_writev, fd, parts, count) : syscall(SYS_pwritev, fd, parts, count, offset, 0);
    int error = errno;
    if (recorded(fd)) {
        if (written > 0) record_written(fd, parts, count, written, offset);
        unlock();
    }
    errno = error;
    return written;
}

ssize_t write(int fd, const void *bytes, size_t length) {
    if (!recorded(fd)) return syscall(SYS_write, fd, bytes, length);
    struct iovec part = {(void *)bytes, length};
    return write_parts(fd, &part, 1, -1);
}
ssize_t writev(int fd, const struct iovec *parts, int count) { return write_parts(fd, parts, count, -1); }
ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset) {
    struct iovec part = {(void *)bytes, length};
    return write_parts(fd, &part, 1, offset);
}
ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset) { return pwrite(fd, bytes, length, offset); }
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) { return write_parts(fd, parts, count, offset); }
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset) { return write_parts(fd, parts, count, offset); }

int ftruncate(int fd, off_t length) {
    if (!recorded(fd)) return syscall(SYS_ftruncate, fd, length);
    lock();
    int result = syscall(SYS_ftruncate, fd, length);
    if (!result) record(CUT, recorded(fd), length, NULL, 0);
    unlock();
    return result;
}
int ftruncate64(int fd, off64_t length) { return ftruncate(fd, length); }

// Holds the mutex during the sync, so that no write which the sync may have missed is recorded before it.
static int sync_file(int fd, long call) {
    if (!recorded(fd)) return syscall(call, fd);
    lock();
    if (is_stream[fd]) record_stream(fd);
    int result = syscall(call, fd);
    if (!result) record(SYNC, recorded(fd), 0, NULL, 0);
    unlock();
    return result;
}
int fsync(int fd) { return sync_file(fd, SYS_fsync); }
int fdatasync(int fd) { return sync_file(fd, SYS_fdatasync); }

// The path without links, even for a file that does not exist.
static int resolve(const char *path, char *resolved) {
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/'), *last = slash ? slash + 1 : path;
    snprintf(parent, sizeof parent, "%.*s", slash ? (int)(slash - path + 1) : 1, slash ? path : ".");
    int before = errno, found = !!realpath(parent, resolved);
    errno = before;
    if (!found || strlen(resolved) + strlen(last) + 2 > PATH_MAX) return 0;
    strcat(strcat(resolved, "/"), last);
    return 1;
}

int rename(const char *from, const char *to) {
    char source[PATH_MAX], target[PATH_MAX];
    const char *old = record_log >= 0 && resolve(from, source) ? name_in_folder(source) : NULL;
    const char *new = old && resolve(to, target) ? name_in_folder(target) : NULL;
    if (!new) return syscall(SYS_rename, from, to);
    lock();
    int result = syscall(SYS_rename, from, to);
    struct iovec names[] = {{(void *)old, strlen(old) + 1}, {(void *)new, strlen(new)}};
    if (!result) record(RENAME, 0, 0, names, 2);
    unlock();
    return result;
}

int unlink(const char *path) {
    char resolved[PATH_MAX];
    const char *name = record_log >= 0 && resolve(path, resolved) ? name_in_folder(resolved) : NULL;
    if (!name) return syscall(SYS_unlink, path);
    lock();
    int result = syscall(SYS_unlink, path);
    if (!result) record_bytes(UNLINK, 0, 0, name, strlen(name));
    unlock();
    return result;
}
