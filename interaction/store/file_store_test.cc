#include "ding_worker/interaction/store/file_store.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/store/testing/store_conformance.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The test's name is in the path; the name of a parameterized test contains slashes.
std::unique_ptr<Store> NewStore() { return FileStore::Create(FreshTestFolder()).value(); }

INSTANTIATE_TEST_SUITE_P(File, StoreConformance, testing::Values(StoreMaker(NewStore)));

// Removes root's right to bypass file permissions from this thread until the end of the scope.
class WithoutRootRights {
 public:
  WithoutRootRights() {
    Capabilities(SYS_capget);
    old_ = sets_[0].effective;
    sets_[0].effective &= ~(1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH);
    Capabilities(SYS_capset);
  }
  ~WithoutRootRights() {
    sets_[0].effective = old_;
    Capabilities(SYS_capset);
  }

 private:
  void Capabilities(long call) {
    __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    DING_CHECK(syscall(call, &header, sets_) == 0);
  }

  __user_cap_data_struct sets_[2] = {};
  uint32_t old_ = 0;
};

class FileStoreTest : public testing::Test {
 protected:
  std::string In(absl::string_view name) const { return JoinPath(folder_, name); }
  absl::StatusOr<std::string> Get(absl::string_view key) {
    std::string value;
    const absl::Status status = store_->Get(key, &value);
    if (!status.ok()) return status;
    return value;
  }

  const std::string folder_ = JoinPath(FreshTestFolder(), "run");
  const std::unique_ptr<FileStore> store_ = FileStore::Create(folder_).value();
};

TEST_F(FileStoreTest, FolderMustBeAbsolute) {
  for (const char* const folder : {"", "x", "./x"}) {
    EXPECT_THAT(FileStore::Create(folder), StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

TEST_F(FileStoreTest, FlippedBitsAndMissingBytesAreDataLoss) {
  ASSERT_THAT(store_->Put("a", {"some ", "bytes"}), IsOk());
  const std::string good = ReadFile(In("a")).value();
  ASSERT_EQ(good.size(), 20u + 5u + 10u) << "header, 'run/a', value";
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ 1 << bit % 8);
    OverwriteFile(In("a"), bad);
    EXPECT_THAT(Get("a"), StatusIs(absl::StatusCode::kDataLoss,
                                   AllOf(HasSubstr("'a'"), HasSubstr(store_->url()))))
        << "bit " << bit;
  }
  for (size_t size = 0; size < good.size(); ++size) {
    OverwriteFile(In("a"), good.substr(0, size));
    EXPECT_THAT(Get("a"), StatusIs(absl::StatusCode::kDataLoss)) << size << " bytes";
  }
  OverwriteFile(In("a"), good + "x");
  EXPECT_THAT(Get("a"), StatusIs(absl::StatusCode::kDataLoss));
  OverwriteFile(In("a"), good);
  EXPECT_EQ(Get("a").value(), "some bytes");
}

TEST_F(FileStoreTest, Fuzz_MutantOfAFile_IsItsValueOrDataLoss) {
  const std::string text = "some bytes, some more bytes, and more";
  ASSERT_THAT(store_->Put("a", {text}), IsOk());
  const std::string good = ReadFile(In("a")).value();
  Fuzz(5000, [&](Mutator* mutator) {
    const std::string bad = mutator->Mutate(good);
    OverwriteFile(In("a"), bad);
    const absl::StatusOr<std::string> value = Get("a");
    if (bad == good) {
      EXPECT_EQ(value.value(), text);
    } else {
      EXPECT_THAT(value, StatusIs(absl::StatusCode::kDataLoss));
    }
  });
}

TEST_F(FileStoreTest, FileLargerThanAnyValueTakesNoMemory) {
  ASSERT_THAT(store_->Put("a", {"x"}), IsOk());
  ASSERT_EQ(truncate(In("a").c_str(), kMaxValueBytes * 1000), 0);
  EXPECT_THAT(Get("a"), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("bytes")));
}

TEST_F(FileStoreTest, SparseFileTakesNoMemory) {
  OverwriteFile(In("a"), "");
  ASSERT_EQ(truncate(In("a").c_str(), int64_t{1} << 30), 0);
  std::string value;
  EXPECT_THAT(
      store_->Get("a", &value),
      StatusIs(absl::StatusCode::kDataLoss,
               AllOf(HasSubstr("'a'"), HasSubstr("1073741824 bytes that are not a value"))));
  // A value that has grown no longer matches the size in its header.
  ASSERT_THAT(store_->Put("a", {"some bytes"}), IsOk());
  ASSERT_EQ(truncate(In("a").c_str(), int64_t{1} << 30), 0);
  EXPECT_THAT(store_->Get("a", &value),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("bytes, and was put with 10")));
  EXPECT_LT(value.capacity(), 1000u);
}

// Reading such files could wait for ever, or read data from outside the store.
TEST_F(FileStoreTest, IrregularFilesAreDataLossAtOnce) {
  const auto damaged = StatusIs(absl::StatusCode::kDataLoss,
                                AllOf(HasSubstr("'data/a' is damaged"), HasSubstr(In("data/a")),
                                      HasSubstr("expected a regular file")));
  ASSERT_THAT(store_->Put("data/a", {"1"}), IsOk());
  ASSERT_THAT(RemoveFile(In("data/a")), IsOk());
  ASSERT_EQ(mkfifo(In("data/a").c_str(), 0600), 0);
  EXPECT_THAT(Get("data/a"), damaged);
  EXPECT_THAT(store_->List("").value(), IsEmpty());
  EXPECT_THAT(store_->Put("data/a", {"2"}), IsOk());
  EXPECT_EQ(Get("data/a").value(), "2");
  for (const char* const target : {"/dev/zero", "nowhere"}) {
    ASSERT_THAT(store_->Delete("data/a"), IsOk());
    ASSERT_EQ(symlink(target, In("data/a").c_str()), 0);
    EXPECT_THAT(Get("data/a"), damaged) << target;
  }
  EXPECT_THAT(store_->Delete("data/a"), IsOk());
  EXPECT_THAT(ListDirectory(In("data")).value(), IsEmpty());
}

TEST_F(FileStoreTest, ValueUnderAnotherNameIsDataLoss) {
  ASSERT_THAT(store_->Put("data/1/1", {"1"}), IsOk());
  ASSERT_THAT(store_->Put("data/1/2", {"2"}), IsOk());
  ASSERT_THAT(store_->Put("data/1/30", {"3"}), IsOk());
  ASSERT_THAT(RenamePath(In("data/1/1"), In("x")), IsOk());
  ASSERT_THAT(RenamePath(In("data/1/2"), In("data/1/1")), IsOk());
  ASSERT_THAT(RenamePath(In("data/1/30"), In("data/1/2")), IsOk());
  ASSERT_THAT(RenamePath(In("x"), In("data/1/30")), IsOk());
  EXPECT_THAT(Get("data/1/1"),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("'data/1/1' is damaged: it is the value of 'run/data/1/2', "
                                 "expected that of 'run/data/1/1'")));
  EXPECT_THAT(Get("data/1/2"), StatusIs(absl::StatusCode::kDataLoss,
                                        HasSubstr("it is the value of 'run/data/1/3...'")));
  EXPECT_THAT(Get("data/1/30"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("it is the value of 'run/data/1/1")));
  // A value of another run.
  const auto other = FileStore::Create(JoinPath(folder_, "../run2/")).value();
  ASSERT_THAT(other->Put("data/1/1", {"1"}), IsOk());
  ASSERT_THAT(RenamePath(In("../run2/data/1/1"), In("data/1/1")), IsOk());
  EXPECT_THAT(Get("data/1/1"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("it is the value of 'run2/data/1/")));
}

TEST_F(FileStoreTest, ValueOfAnotherFormatVersionIsRefused) {
  ASSERT_THAT(store_->Put("a", {"1"}), IsOk());
  std::string bytes = ReadFile(In("a")).value();
  bytes[4] = 1;
  OverwriteFile(In("a"), bytes);
  EXPECT_THAT(Get("a"), StatusIs(absl::StatusCode::kDataLoss,
                                 HasSubstr("it has version 1, this program reads version 2")));
}

// Other processes may leave links out of the store, folders deeper than any key, and files that are
// no values.
TEST_F(FileStoreTest, ListingAndDeletingStayInTheStore) {
  ASSERT_THAT(store_->Put("data/a", {"1"}), IsOk());
  const std::string outside = folder_ + ".outside";
  ASSERT_THAT(CreateDirectories(outside), IsOk());
  ASSERT_THAT(WriteFileAtomically(JoinPath(outside, "f"), "x"), IsOk());
  ASSERT_EQ(symlink(outside.c_str(), In("data/link").c_str()), 0);
  ASSERT_EQ(mkfifo(In("data/fifo").c_str(), 0600), 0);
  std::string deep = In("deep");
  for (int i = 0; i < 500; ++i) deep += "/d";
  ASSERT_THAT(CreateDirectories(deep), IsOk());
  rlimit files;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  const rlimit few = {250, files.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  EXPECT_THAT(store_->List("").value(), ElementsAre("data/a"));
  EXPECT_THAT(store_->RemoveTemporaryFiles(absl::InfiniteFuture()), IsOk());
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  EXPECT_THAT(store_->Clear(), IsOk());
  EXPECT_FALSE(PathExists(folder_));
  EXPECT_EQ(ReadFile(JoinPath(outside, "f")).value(), "x");
}

TEST_F(FileStoreTest, FullDiskKeepsOldValuesAndLeavesNoFiles) {
  ASSERT_THAT(store_->Put("data/a", {"old"}), IsOk());
  {
    const FileSizeLimit limit(1000);
    for (const char* const key : {"data/a", "data/b"}) {
      EXPECT_THAT(store_->Put(key, {std::string(600, 'x'), std::string(600, 'y')}),
                  StatusIs(absl::StatusCode::kResourceExhausted,
                           AllOf(HasSubstr(key), HasSubstr(store_->url()))));
    }
    EXPECT_THAT(store_->Put("data/c", {std::string(970, 'x')}), IsOk()) << "this value just fits";
  }
  EXPECT_EQ(Get("data/a").value(), "old");
  EXPECT_THAT(ListDirectory(In("data")).value(), ElementsAre("a", "c"));
}

TEST_F(FileStoreTest, UnavailableWhileTheFolderIsGone) {
  ASSERT_THAT(store_->Put("data/a", {"1"}), IsOk());
  ASSERT_THAT(RenamePath(folder_, folder_ + ".away"), IsOk());
  const auto unavailable =
      StatusIs(absl::StatusCode::kUnavailable, AllOf(HasSubstr(folder_), HasSubstr("gone")));
  EXPECT_THAT(store_->Put("data/a", {"2"}), unavailable);
  EXPECT_THAT(store_->Put("b", {"2"}), unavailable);
  EXPECT_THAT(Get("data/a"), unavailable);
  EXPECT_THAT(store_->Delete("data/a"), unavailable);
  EXPECT_THAT(store_->List(""), unavailable);
  EXPECT_FALSE(PathExists(folder_)) << "a new folder might be on another disk";
  ASSERT_THAT(RenamePath(folder_ + ".away", folder_), IsOk());
  EXPECT_EQ(Get("data/a").value(), "1");
  ASSERT_THAT(RemoveRecursively(folder_), IsOk());
  ASSERT_THAT(CreateDirectories(folder_), IsOk());
  EXPECT_THAT(Get("data/a"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(store_->Put("data/a", {"2"}), IsOk());
  EXPECT_EQ(Get("data/a").value(), "2");
}

TEST_F(FileStoreTest, UnavailableWithoutPermission) {
  ASSERT_THAT(store_->Put("data/a", {"1"}), IsOk());
  const WithoutRootRights rights;
  ASSERT_EQ(chmod(In("data").c_str(), 0555), 0);
  EXPECT_THAT(store_->Put("data/a", {"2"}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("Permission denied")));
  EXPECT_THAT(store_->Delete("data/a"), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(Get("data/a").value(), "1");
  ASSERT_EQ(chmod(In("data").c_str(), 0755), 0);
  ASSERT_EQ(chmod(In("data/a").c_str(), 0), 0);
  EXPECT_THAT(Get("data/a"), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(FileStoreTest, KeyCannotBeTheFolderOfAnotherKey) {
  ASSERT_THAT(store_->Put("a/b", {"1"}), IsOk());
  EXPECT_THAT(store_->Put("a", {"2"}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(store_->Put("a/b/c", {"2"}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(Get("a/b").value(), "1");
  EXPECT_THAT(ListDirectory(folder_).value(), ElementsAre("a"));
}

TEST_F(FileStoreTest, LinkInThePlaceOfAValueIsNotFollowed) {
  ASSERT_THAT(store_->Put("a", {"1"}), IsOk());
  const std::string outside = JoinPath(folder_, "../outside");
  ASSERT_THAT(RenamePath(In("a"), outside), IsOk());
  ASSERT_EQ(symlink(outside.c_str(), In("a").c_str()), 0);
  EXPECT_THAT(Get("a"), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(store_->List("").value(), IsEmpty());
  ASSERT_THAT(store_->Put("a", {"2"}), IsOk());
  EXPECT_EQ(Get("a").value(), "2");
  EXPECT_EQ(ReadFile(outside).value().back(), '1');
}

TEST_F(FileStoreTest, TemporaryFilesOfKilledWritersAreRemoved) {
  // The writer is killed by the signal for a file that grows too large.
  const pid_t pid = fork();
  if (pid == 0) {
    const FileSizeLimit limit(1000);
    std::signal(SIGXFSZ, SIG_DFL);
    store_->Put("data/a", {std::string(600, 'x'), std::string(600, 'y')}).IgnoreError();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_EQ(ListDirectory(In("data")).value().size(), 1u);
  EXPECT_THAT(store_->List("").value(), IsEmpty());
  EXPECT_THAT(Get("data/a"), StatusIs(absl::StatusCode::kNotFound));
  ASSERT_THAT(store_->Put("data/b", {"1"}), IsOk());

  EXPECT_THAT(store_->RemoveTemporaryFiles(absl::Now() - absl::Minutes(10)), IsOk());
  const std::vector<std::string> names = ListDirectory(In("data")).value();
  ASSERT_EQ(names.size(), 2u) << "its writer may still be alive";
  // Makes the files look two hours old.
  const timespec old = absl::ToTimespec(absl::Now() - absl::Hours(2));
  const timespec times[] = {old, old};
  for (const std::string& name : names) {
    ASSERT_EQ(utimensat(AT_FDCWD, In(absl::StrCat("data/", name)).c_str(), times, 0), 0);
  }
  ASSERT_THAT(FileStore::Create(folder_), IsOk());
  EXPECT_THAT(ListDirectory(In("data")).value(), ElementsAre("b"));
}

TEST_F(FileStoreTest, ProcessesShareAStore) {
  constexpr int kRounds = 200;
  const pid_t pid = fork();
  if (pid == 0) {
    bool ok = true;
    for (int i = 0; i < kRounds && ok; ++i) {
      const std::string value(static_cast<size_t>(i * 50), static_cast<char>('a' + i % 26));
      ok = store_->Put("data/x", {value}).ok() &&
           store_->Put(absl::StrCat("data/", i), {value}).ok();
    }
    _exit(ok ? 0 : 1);
  }
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    const absl::StatusOr<std::string> value = Get("data/x");
    if (!value.ok()) {
      EXPECT_THAT(value, StatusIs(absl::StatusCode::kNotFound));
    } else {
      EXPECT_EQ(value->find_first_not_of(value->substr(0, 1)), std::string::npos);
    }
  }
  EXPECT_EQ(status, 0);
  EXPECT_EQ(store_->List("data/").value().size(), size_t{kRounds + 1});
}

}  // namespace
}  // namespace ding
