/*
 * Preloaded into a process, shifts its wall clock by as many ms as the file CLOCK_SHIFT_FILE says now;
 * `=` and a time in ms stops that clock there. Its monotonic clocks go on, as when an administrator sets the time. (libfaketime cannot run below a
 * redis-server that is linked with jemalloc.) Declares what it needs, so that no header is required.
 */
struct timespec { long tv_sec; long tv_nsec; };
struct timeval { long tv_sec; long tv_usec; };

extern long syscall(long number, ...);
extern int open(const char *path, int flags, ...);
extern long pread(int file, void *buffer, unsigned long size, long offset);
extern char *getenv(const char *name);

#if defined(__aarch64__)
#define SYS_CLOCK_GETTIME 113
#else
#define SYS_CLOCK_GETTIME 228
#endif
#define WALL_CLOCK 0
#define WALL_CLOCK_COARSE 5

static int file = -1;

static long shift_ms(long now_ms) {
  char text[24];
  long i = 0, ms = 0, length;
  if (file < 0) {
    const char *path = getenv("CLOCK_SHIFT_FILE");
    if (path != 0) file = open(path, 0);
  }
  length = pread(file, text, sizeof text, 0);
  if (length > 0 && (text[0] == '-' || text[0] == '=')) i = 1;
  for (; i < length && text[i] >= '0' && text[i] <= '9'; i += 1) ms = ms * 10 + (text[i] - '0');
  if (length > 0 && text[0] == '=') return ms - now_ms;
  return length > 0 && text[0] == '-' ? -ms : ms;
}

int clock_gettime(int clock, struct timespec *now) {
  int failed = (int)syscall(SYS_CLOCK_GETTIME, clock, now);
  if (failed == 0 && (clock == WALL_CLOCK || clock == WALL_CLOCK_COARSE)) {
    long ms = shift_ms(now->tv_sec * 1000 + now->tv_nsec / 1000000);
    now->tv_sec += ms / 1000;
    now->tv_nsec += ms % 1000 * 1000000;
    if (now->tv_nsec < 0) { now->tv_nsec += 1000000000; now->tv_sec -= 1; }
    if (now->tv_nsec >= 1000000000) { now->tv_nsec -= 1000000000; now->tv_sec += 1; }
  }
  return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
  struct timespec time;
  (void)zone;
  clock_gettime(WALL_CLOCK, &time);
  now->tv_sec = time.tv_sec;
  now->tv_usec = time.tv_nsec / 1000;
  return 0;
}

long time(long *now) {
  struct timespec time;
  clock_gettime(WALL_CLOCK, &time);
  if (now != 0) *now = time.tv_sec;
  return time.tv_sec;
}
