/* Archives built byte by byte, and what must not be read from damaged ones. */
#include "base/memory.h"
#include "base/strbuf.h"
#include "data/tar.h"
#include "support/test.h"

static void put_sum(char *header)
{
    unsigned sum = 0;
    memset(header + 148, ' ', 8);
    for (int i = 0; i < TAR_BLOCK_BYTES; i++)
        sum += (unsigned char)header[i];
    snprintf(header + 148, 8, "%06o", sum);
}

static void add_header(struct strbuf *archive, const char *name, char kind, size_t bytes)
{
    char header[TAR_BLOCK_BYTES] = "";
    snprintf(header, 100, "%s", name);
    snprintf(header + 124, 12, "%011zo", bytes);
    header[156] = kind;
    memcpy(header + 257,
           "ustar\0"
           "00",
           8);
    put_sum(header);
    strbuf_add_bytes(archive, header, sizeof header);
}

static void add_data(struct strbuf *archive, const void *data, size_t bytes)
{
    strbuf_add_bytes(archive, data, bytes);
    while (archive->length % TAR_BLOCK_BYTES)
        strbuf_add_char(archive, '\0');
}

static void add_member(struct strbuf *archive, const char *name, const char *text)
{
    add_header(archive, name, '0', strlen(text));
    add_data(archive, text, strlen(text));
}

static void add_end(struct strbuf *archive)
{
    for (int i = 0; i < 2 * TAR_BLOCK_BYTES; i++)
        strbuf_add_char(archive, '\0');
}

static int next(const struct strbuf *archive, uint64_t *offset, struct tar_member *member,
                struct error *err)
{
    return tar_next("a.tar", (const uint8_t *)archive->text, archive->length, offset, member, err);
}

/* The next member has this name and text. */
static void expect(const struct strbuf *archive, uint64_t *offset, const char *name,
                   const char *text)
{
    struct tar_member member;
    struct error err = {0};
    int found = next(archive, offset, &member, &err);
    if (found != 1)
        FAIL("no member '%s': %s", name, err.message);
    ASSERT_TEXT(member.name, name);
    ASSERT_INT(member.bytes, ==, strlen(text));
    ASSERT_BYTES(archive->text + member.offset, text, member.bytes);
}

TEST(tar, gives_members_in_order)
{
    struct strbuf archive;
    struct tar_member member;
    struct error err = {0};
    uint64_t offset = 0;
    strbuf_init(&archive);
    add_member(&archive, "a.jpg", "first");
    add_header(&archive, "folder/", '5', 0);
    add_member(&archive, "folder/b.jpg", "");
    add_end(&archive);
    expect(&archive, &offset, "a.jpg", "first");
    ASSERT_INT(next(&archive, &offset, &member, &err), ==, 1);
    ASSERT_FALSE(member.is_file);
    expect(&archive, &offset, "folder/b.jpg", "");
    ASSERT_INT(next(&archive, &offset, &member, &err), ==, 0);
    ASSERT_INT(next(&archive, &offset, &member, &err), ==, 0);
    strbuf_release(&archive);
}

TEST(tar, may_lack_its_end_and_its_last_padding)
{
    struct strbuf archive;
    struct tar_member member;
    struct error err = {0};
    uint64_t offset = 0;
    strbuf_init(&archive);
    add_header(&archive, "a.jpg", '0', 5);
    strbuf_add(&archive, "first");
    expect(&archive, &offset, "a.jpg", "first");
    ASSERT_INT(next(&archive, &offset, &member, &err), ==, 0);
    strbuf_release(&archive);
}

TEST(tar, takes_long_names_of_gnu_and_pax)
{
    struct strbuf archive;
    char name[300], line[400];
    uint64_t offset = 0;
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    strbuf_init(&archive);
    add_header(&archive, "././@LongLink", 'L', sizeof name);
    add_data(&archive, name, sizeof name);
    add_member(&archive, "xxx", "one");
    snprintf(line, sizeof line, "%d path=%s\n", 4 + 5 + 299 + 1, name);
    add_header(&archive, "pax", 'x', strlen(line));
    add_data(&archive, line, strlen(line));
    add_member(&archive, "xxx", "two");
    add_member(&archive, "short", "three");
    add_end(&archive);
    expect(&archive, &offset, name, "one");
    expect(&archive, &offset, name, "two");
    expect(&archive, &offset, "short", "three");
    strbuf_release(&archive);
}

TEST(tar, takes_the_prefix_of_ustar_and_sizes_in_base_256)
{
    struct strbuf archive;
    uint64_t offset = 0;
    strbuf_init(&archive);
    add_member(&archive, "b.jpg", "text");
    memcpy(archive.text + 345, "some/where", 10);
    memset(archive.text + 124, 0, 12);
    archive.text[124] = (char)0x80;
    archive.text[135] = 4;
    put_sum(archive.text);
    expect(&archive, &offset, "some/where/b.jpg", "text");
    strbuf_release(&archive);
}

TEST(tar, that_is_damaged_is_refused_with_the_offset)
{
    struct strbuf archive;
    struct tar_member member;
    struct error err;
    uint64_t offset = 0;
    strbuf_init(&archive);
    add_member(&archive, "a.jpg", "first");
    add_member(&archive, "b.jpg", "second");
    archive.text[1024 + 3]++;
    expect(&archive, &offset, "a.jpg", "first");
    ASSERT_FAILS(next(&archive, &offset, &member, &err), err, ERROR_FORMAT,
                 "a.tar: tar header at offset 1024: its checksum is wrong");
    archive.text[1024 + 3]--;
    archive.length = 1024 + 100;
    offset = 1024;
    ASSERT_FAILS(next(&archive, &offset, &member, &err), err, ERROR_FORMAT, "the file ends inside");
    archive.length = 1024 + 512 + 3;
    ASSERT_FAILS(next(&archive, &offset, &member, &err), err, ERROR_FORMAT,
                 "'b.jpg' should have 6 bytes, 3 are there");
    strbuf_release(&archive);
}
