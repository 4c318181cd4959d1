/* A clock of one's own: loaded into a program, it sets the time of day on by what stands in the file AHEAD, eight bytes
   of seconds, read anew each time. Clocks that only count on stay as they are, as when a real clock is set. It declares
   what it needs itself, so that a compiler is enough to build it. */

struct timespec { long tv_sec, tv_nsec; };
struct timeval { long tv_sec, tv_usec; };

extern void *dlsym(void *, const char *);
extern int open(const char *, int, ...);
extern int close(int);
extern void *mmap(void *, unsigned long, int, int, int, long);

enum { REALTIME = 0, REALTIME_COARSE = 5, REALTIME_ALARM = 8, TAI = 11 };

static const long *ahead;

__attribute__((constructor)) static void begin(void) {
    int file = open(AHEAD, 02000000 /* O_RDONLY, O_CLOEXEC */);
    if (file < 0) return;
    void *found = mmap(0, sizeof *ahead, 1 /* PROT_READ */, 1 /* MAP_SHARED */, file, 0);
    if (found != (void *)-1) ahead = found;
    close(file);
}

int clock_gettime(int clock, struct timespec *now) {
    static int (*real)(int, struct timespec *);
    if (!real) real = dlsym((void *)-1L /* RTLD_NEXT */, "clock_gettime");
    int failed = real(clock, now);
    if (!failed && ahead)
        if (clock == REALTIME || clock == REALTIME_COARSE || clock == REALTIME_ALARM || clock == TAI) now->tv_sec += *ahead;
    return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec exact;
    (void)zone;
    if (clock_gettime(REALTIME, &exact)) return -1;
    if (now) *now = (struct timeval){exact.tv_sec, exact.tv_nsec / 1000};
    return 0;
}

long time(long *now) {
    struct timespec exact;
    if (clock_gettime(REALTIME, &exact)) return -1;
    if (now) *now = exact.tv_sec;
    return exact.tv_sec;
}
