/* Time, in seconds as double: monotonic for measuring, wall clock for people. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

double clock_seconds(void);      /* monotonic */
double clock_wall_seconds(void); /* since 1970 */
double clock_processor_seconds(void); /* of all threads of this process, kernel included */
double clock_thread_seconds(void);    /* of the calling thread alone, likewise */
/* Seconds since this process was started, as the kernel counts them (exec included). */
double clock_since_process_start(void);

#endif
