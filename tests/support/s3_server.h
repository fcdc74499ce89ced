/* Starts tests/support/s3_server.py and points the environment at it. */
#ifndef TESTS_SUPPORT_S3_SERVER_H
#define TESTS_SUPPORT_S3_SERVER_H

/* At the first call; it ends with the test program. Each call sets the environment anew: endpoint,
 * right credentials, short waits, no files of the user's. Returns its port. */
int s3_server(void);

#endif
