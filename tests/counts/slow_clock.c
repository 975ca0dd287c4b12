/* A clock for the server that is counted: it goes a thousandth as fast. What a server does by the clock, whatever is asked of it,
 * would otherwise cost the more instructions per call the slower the machine is.
 *
 * The monotonic clock is an hour ahead: a thread that waits until an instant asks the kernel, whose clock goes on, and would find
 * that instant passed. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SLOWER = 1000, AHEAD_SECONDS = 3600, CLOCKS = 16 };
static const long long NANOS = 1000000000;
static long long began[CLOCKS];

static long long now(clockid_t id) {
    struct timespec time = {0, 0};
    syscall(SYS_clock_gettime, id, &time);
    return time.tv_sec * NANOS + time.tv_nsec;
}

/* Before the program has a second thread. */
__attribute__((constructor)) static void begin(void) {
    for (clockid_t id = 0; id < CLOCKS; id++) began[id] = now(id);
}

int clock_gettime(clockid_t id, struct timespec *time) {
    if (id < 0 || id >= CLOCKS || id == CLOCK_PROCESS_CPUTIME_ID || id == CLOCK_THREAD_CPUTIME_ID) return (int)syscall(SYS_clock_gettime, id, time);
    long long shown = began[id] + (now(id) - began[id]) / SLOWER + (id == CLOCK_MONOTONIC ? AHEAD_SECONDS * NANOS : 0);
    time->tv_sec = shown / NANOS;
    time->tv_nsec = shown % NANOS;
    return 0;
}
