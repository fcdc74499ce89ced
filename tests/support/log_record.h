/* Keeps what the code under test says by base/log.h. */
#ifndef TESTS_SUPPORT_LOG_RECORD_H
#define TESTS_SUPPORT_LOG_RECORD_H

void log_record_start(void);       /* forgets what was said before */
int log_record_count(void);        /* lines */
const char *log_record_text(void); /* all of them, each with a newline; cut at some length */

#endif
