/* Files as parts of the program: the assembler puts them in as they are, with a NUL behind. The
 * Makefile has to know which object depends on which file. */
#ifndef BASE_EMBED_H
#define BASE_EMBED_H

/* Defines `name` and `name_end`, an array of char and its end. */
#define EMBED(name, file)                                                                          \
    __asm__(".pushsection .rodata\n"                                                               \
            ".hidden " #name "\n.hidden " #name "_end\n"                                           \
            ".globl " #name "\n.globl " #name "_end\n" #name ":\n.incbin \"" file "\"\n" #name     \
            "_end:\n.byte 0\n"                                                                     \
            ".popsection\n");                                                                      \
    extern const char name[], name##_end[]

#endif
