#include "ding_worker/base/file.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/io_vectors.h"
#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class FileTest : public testing::Test {
 protected:
  std::string In(absl::string_view name) const { return JoinPath(folder_, name); }
  std::vector<std::string> Names() const { return ListDirectory(folder_).value(); }

  const std::string folder_ = FreshTestFolder();
};

TEST(Paths, Join) {
  EXPECT_EQ(JoinPath("a", "b"), "a/b");
  EXPECT_EQ(JoinPath("a/", "b"), "a/b");
  EXPECT_EQ(JoinPath("/a", "b/c"), "/a/b/c");
  EXPECT_EQ(JoinPath("", "b"), "b");
  // The original put "./" before an absolute name.
  EXPECT_EQ(JoinPath("a", "/b"), "/b");
}

TEST(Paths, Basename) {
  EXPECT_EQ(Basename("a/b/c"), "c");
  EXPECT_EQ(Basename("c"), "c");
  EXPECT_EQ(Basename("/c"), "c");
}

TEST(ErrnoStatus, HasTextReasonAndMatchingCode) {
  EXPECT_THAT(ErrnoStatus(ENOSPC, "cannot write 'x'"),
              IsResourceExhausted("cannot write 'x'", "No space left"));
  EXPECT_THAT(ErrnoStatus(EACCES, "x"), StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_THAT(ErrnoStatus(EIO, "x"), IsInternal());
}

TEST_F(FileTest, WritesAndReadsBack) {
  const std::string content("text\nwith\0zero\0", 15);
  EXPECT_THAT(WriteFileAtomically(In("f"), content), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const std::string read, ReadFile(In("f")));
  EXPECT_EQ(read, content);
  EXPECT_THAT(WriteFileAtomically(In("f"), ""), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const std::string empty, ReadFile(In("f")));
  EXPECT_EQ(empty, "");
  EXPECT_THAT(Names(), ElementsAre("f"));
}

TEST_F(FileTest, ReadErrorsNameThePath) {
  EXPECT_THAT(ReadFile(In("none")), IsNotFound(In("none"), "No such file"));
  EXPECT_THAT(ReadFile(folder_), IsInvalid(folder_));
  EXPECT_THAT(RandomAccessFile::Open(In("none")), IsNotFound());
  EXPECT_THAT(RandomAccessFile::Open(folder_), IsInvalid());
}

// Without the check, opening each of them would wait for a writer, or reading would never end.
TEST_F(FileTest, OtherKindsOfFilesAreRefusedWithoutWaiting) {
  ASSERT_EQ(mkfifo(In("fifo").c_str(), 0600), 0);
  ASSERT_EQ(symlink(In("fifo").c_str(), In("link").c_str()), 0);
  ASSERT_EQ(symlink(In("nowhere").c_str(), In("dangling").c_str()), 0);
  const int socket_fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  // The address is relative to the folder because socket addresses must be short.
  ASSERT_EQ(chdir(folder_.c_str()), 0);
  std::strcpy(address.sun_path, "socket");
  ASSERT_EQ(bind(socket_fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  close(socket_fd);
  const struct {
    std::string path;
    const char* kind;
  } kinds[] = {{In("fifo"), "a FIFO"},
               {In("link"), "a FIFO"},
               {In("socket"), "a socket"},
               {"/dev/zero", "a device"},
               {folder_, "a folder"}};
  for (const auto& [path, kind] : kinds) {
    SCOPED_TRACE(path);
    const auto refused = IsInvalid(path, absl::StrCat("it is ", kind, ", expected a regular"));
    EXPECT_THAT(ReadFile(path), refused);
    EXPECT_THAT(ReadPrivateFile(path), refused);
    EXPECT_THAT(RandomAccessFile::Open(path), refused);
    for (const int flags : {O_RDONLY, O_RDWR, O_WRONLY, O_RDWR | O_CREAT | O_APPEND}) {
      EXPECT_THAT(OpenRegularFile(path, flags, 0600).status(), refused) << flags;
    }
  }
  EXPECT_THAT(ReadFile(In("dangling")), IsNotFound());
  ASSERT_THAT(WriteFileAtomically(In("file"), "x"), IsOk());
  ASSERT_EQ(symlink(In("file").c_str(), In("to_file").c_str()), 0);
  EXPECT_THAT(ReadFile(In("to_file")), IsOk());
  EXPECT_THAT(OpenRegularFile(In("to_file"), O_RDONLY | O_NOFOLLOW).status(),
              IsInvalid("a symbolic link"));
}

TEST_F(FileTest, ATooLargeFileIsRefusedWithoutTakingMemory) {
  ASSERT_THAT(WriteFileAtomically(In("f"), "x"), IsOk());
  ASSERT_EQ(truncate(In("f").c_str(), int64_t{1} << 40), 0);
  ASSERT_EQ(chmod(In("f").c_str(), 0600), 0);
  const auto refused = IsInvalid(In("f"), "has 1099511627776 bytes");
  EXPECT_THAT(ReadFile(In("f")), refused);
  EXPECT_THAT(ReadPrivateFile(In("f")), refused);
  ASSERT_EQ(truncate(In("f").c_str(), 100), 0);
  EXPECT_THAT(ReadFile(In("f"), 99), IsInvalid());
  EXPECT_THAT(ReadFile(In("f"), 100), IsOk());
  // Files of /proc do not report their size before they are read.
  EXPECT_THAT(ReadFile("/proc/self/status", 10), IsInvalid());
  EXPECT_THAT(ReadFile("/proc/self/status"), IsOk());
}

TEST_F(FileTest, ASecretWithAccessForOthersIsRefused) {
  const std::string path = In("secret");
  ASSERT_THAT(WriteFileAtomically(path, "x"), IsOk());
  for (const mode_t mode : {0644, 0640, 0604, 0620, 0610, 0777}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    EXPECT_THAT(ReadPrivateFile(path), IsFailedPrecondition(path, "expected 0600")) << mode;
  }
  for (const mode_t mode : {0600, 0400}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    DING_ASSERT_OK_AND_ASSIGN(const std::string secret, ReadPrivateFile(path));
    EXPECT_EQ(secret, "x");
  }
  EXPECT_THAT(ReadPrivateFile(In("none")), IsNotFound());
}

TEST_F(FileTest, WritingIntoAMissingFolderNamesThePath) {
  EXPECT_THAT(WriteFileAtomically(In("none/f"), "x"), IsNotFound(In("none/f")));
}

TEST_F(FileTest, AFullDiskLeavesOnlyTheOldFile) {
  ASSERT_THAT(WriteFileAtomically(In("f"), "old"), IsOk());
  for (const size_t size :
       {size_t{2000}, size_t{1} << 20}) {  // The first fits into the buffer, the second does not.
    const FileSizeLimit limit(1000);
    EXPECT_THAT(WriteFileAtomically(In("f"), std::string(size, 'x')), IsResourceExhausted(In("f")));
  }
  DING_ASSERT_OK_AND_ASSIGN(const std::string content, ReadFile(In("f")));
  EXPECT_EQ(content, "old");
  EXPECT_THAT(Names(), ElementsAre("f"));
}

TEST_F(FileTest, RenamingOverAFolderFailsAndLeavesNoTemporaryFile) {
  ASSERT_THAT(CreateDirectories(In("d/inner")), IsOk());
  EXPECT_THAT(WriteFileAtomically(In("d"), "x"), IsInvalid(In("d")));
  EXPECT_THAT(Names(), ElementsAre("d"));
}

TEST_F(FileTest, PiecesOfEverySizeArriveInOrder) {
  DING_ASSERT_OK_AND_ASSIGN(const auto writer, AtomicFileWriter::Create(In("f")));
  std::string expected;
  for (const size_t size : {1, 65535, 1, 0, 65537, 3, 200000, 65536, 65536, 7}) {
    const std::string piece(size, static_cast<char>('a' + expected.size() % 26));
    expected += piece;
    ASSERT_THAT(writer->Append(piece), IsOk());
  }
  EXPECT_FALSE(PathExists(In("f")));
  ASSERT_THAT(writer->Commit(), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const std::string content, ReadFile(In("f")));
  EXPECT_EQ(content == expected, true);
}

TEST_F(FileTest, AnUncommittedWriterLeavesNoFile) {
  {
    DING_ASSERT_OK_AND_ASSIGN(const auto writer, AtomicFileWriter::Create(In("f")));
    ASSERT_THAT(writer->Append(std::string(100000, 'x')), IsOk());
    EXPECT_EQ(Names().size(), 1u);
  }
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(FileTest, ThreadsWritingOnePathDoNotTearIt) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this, i] {
      for (int round = 0; round < 10; ++round) {
        EXPECT_THAT(WriteFileAtomically(In("f"), std::string(static_cast<size_t>(100000 + 1000 * i),
                                                             static_cast<char>('a' + i))),
                    IsOk());
        const auto content = ReadFile(In("f"));
        ASSERT_THAT(content, IsOk());
        const size_t writer = static_cast<size_t>((*content)[0] - 'a');
        EXPECT_EQ(*content == std::string(100000 + 1000 * writer, (*content)[0]), true);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(Names(), ElementsAre("f"));
}

TEST_F(FileTest, RandomAccessReadsPiecesAndReportsTheEnd) {
  ASSERT_THAT(WriteFileAtomically(In("f"), "0123456789"), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const auto file, RandomAccessFile::Open(In("f")));
  EXPECT_EQ(file->size_bytes(), 10);
  std::string piece(3, '\0');
  EXPECT_THAT(file->ReadAt(7, absl::MakeSpan(piece)), IsOk());
  EXPECT_EQ(piece, "789");
  EXPECT_THAT(file->ReadAt(8, absl::MakeSpan(piece)), IsDataLoss(In("f")));
  EXPECT_THAT(file->ReadAt(10, {}), IsOk());
}

TEST_F(FileTest, CreateDirectories) {
  EXPECT_THAT(CreateDirectories(In("a/b/c")), IsOk());
  EXPECT_TRUE(IsDirectory(In("a/b/c")));
  EXPECT_THAT(CreateDirectories(In("a/b/c")), IsOk());
  EXPECT_THAT(CreateDirectories(In("a/b/d/")), IsOk());
  ASSERT_THAT(WriteFileAtomically(In("f"), ""), IsOk());
  EXPECT_THAT(CreateDirectories(In("f")), IsNotFound(In("f")));
  EXPECT_THAT(CreateDirectories(In("f/d")), IsNotFound(In("f/d")));
}

TEST_F(FileTest, CreateNewDirectoryFailsIfThePathExists) {
  EXPECT_THAT(CreateNewDirectory(In("a/b")), IsOk());
  EXPECT_THAT(CreateNewDirectory(In("a/b")), IsError(absl::StatusCode::kAlreadyExists, In("a/b")));
  EXPECT_THAT(CreateNewDirectory(In("a/c/")), IsOk());
  EXPECT_TRUE(IsDirectory(In("a/c")));
}

TEST_F(FileTest, TemporaryDirectoriesHaveDifferentNames) {
  DING_ASSERT_OK_AND_ASSIGN(const std::string a, CreateTemporaryDirectory(In("d/")));
  DING_ASSERT_OK_AND_ASSIGN(const std::string b, CreateTemporaryDirectory(In("d")));
  EXPECT_NE(a, b);
  EXPECT_THAT(a, testing::StartsWith(In("d.tmp.")));
  EXPECT_TRUE(IsDirectory(a) && IsDirectory(b));
}

TEST_F(FileTest, ReplaceDirectoryReplacesTheOldFolder) {
  ASSERT_THAT(CreateDirectories(In("new/deep")), IsOk());
  ASSERT_THAT(ReplaceDirectory(In("new"), In("place")), IsOk());
  EXPECT_TRUE(IsDirectory(In("place/deep")));
  ASSERT_THAT(CreateDirectories(In("newer")), IsOk());
  ASSERT_THAT(WriteFileAtomically(In("newer/f"), "2"), IsOk());
  ASSERT_THAT(ReplaceDirectory(In("newer"), In("place")), IsOk());
  EXPECT_THAT(Names(), ElementsAre("place"));
  EXPECT_THAT(ListDirectory(In("place")).value(), ElementsAre("f"));
  EXPECT_THAT(ReplaceDirectory(In("none"), In("place")), IsNotFound(In("none")));
  EXPECT_THAT(ListDirectory(In("place")).value(), ElementsAre("f"));
}

TEST_F(FileTest, RemoveAndList) {
  ASSERT_THAT(CreateDirectories(In("b/x")), IsOk());
  ASSERT_THAT(WriteFileAtomically(In("a"), ""), IsOk());
  EXPECT_THAT(Names(), ElementsAre("a", "b"));
  EXPECT_THAT(RemoveRecursively(In("b")), IsOk());
  EXPECT_THAT(RemoveRecursively(In("b")), IsOk());
  EXPECT_THAT(Names(), ElementsAre("a"));
  EXPECT_THAT(ListDirectory(In("b")), IsNotFound(In("b")));
}

TEST_F(FileTest, RemoveFileDoesNotRemoveFolders) {
  ASSERT_THAT(WriteFileAtomically(In("a"), ""), IsOk());
  ASSERT_THAT(CreateDirectories(In("b")), IsOk());
  EXPECT_THAT(RemoveFile(In("a")), IsOk());
  EXPECT_THAT(RemoveFile(In("a")), IsOk());
  EXPECT_THAT(RemoveFile(In("b")), testing::Not(IsOk()));
  EXPECT_THAT(Names(), ElementsAre("b"));
}

// Appends at most three bytes per call to `all`; every second call fails with EINTR.
struct SlowWriter {
  std::string* all;
  int* calls;
  ssize_t operator()(const iovec* vectors, int count) const {
    if (++*calls % 2 == 0) {
      errno = EINTR;
      return -1;
    }
    ssize_t moved = 0;
    for (int i = 0; i < count; ++i) {
      for (size_t at = 0; at < vectors[i].iov_len && moved < 3; ++at, ++moved) {
        all->push_back(static_cast<const char*>(vectors[i].iov_base)[at]);
      }
    }
    return moved;
  }
};

TEST(IoVectors, MovesAllBytesWhenEachCallMovesFew) {
  std::string all;
  int calls = 0;
  EXPECT_EQ(MoveAll(SlowWriter{&all, &calls}, {VectorOf("ab"), VectorOf(""), VectorOf("cdefghi"),
                                               VectorOf("j"), VectorOf("")}),
            0);
  EXPECT_EQ(all, "abcdefghij");
  all.clear();
  EXPECT_EQ(MoveAll(SlowWriter{&all, &calls}, {VectorOf("ab"), VectorOf("cdefghi")}, 4), 0);
  EXPECT_EQ(all, "efghi") << "the first four are moved already";
  EXPECT_EQ(MoveAll(SlowWriter{&all, &calls}, {VectorOf("ab"), VectorOf("c")}, 3), 0);
  EXPECT_EQ(all, "efghi");
}

TEST(IoVectors, ReturnsWhyItStopped) {
  const auto fails = [](const iovec*, int) -> ssize_t {
    errno = ENOSPC;
    return -1;
  };
  EXPECT_EQ(MoveAll(fails, {VectorOf("a")}), ENOSPC);
  EXPECT_EQ(MoveAll([](const iovec*, int) -> ssize_t { return 0; }, {VectorOf("a")}), kIoEnded);
  EXPECT_EQ(MoveAll(fails, {}), 0) << "nothing to move";
}

}  // namespace
}  // namespace ding
