/* A wall clock that is ahead by the seconds in the file that LEDGER_CLOCK names: hours pass in an incident, and not in its test.
 * The monotonic clock goes on as it is, so that timers of the program wait for as long as they would. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *ahead;

/* Before the program has a second thread. */
__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("LEDGER_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) abort();
    ahead = mapped;
    close(file);
}

int clock_gettime(clockid_t id, struct timespec *time) {
    int failed = (int)syscall(SYS_clock_gettime, id, time);
    if (!failed && ahead && id == CLOCK_REALTIME) time->tv_sec += *ahead;
    return failed;
}
