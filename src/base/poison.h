/* Included before every source file by the Makefile: functions that invite bugs do not compile. */
#ifndef BASE_POISON_H
#define BASE_POISON_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#pragma GCC poison strcpy strcat sprintf vsprintf strtok atoi atol atof system gets

#endif
