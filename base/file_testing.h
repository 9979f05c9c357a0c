// Helpers for tests that write files: a new folder for each test, and the simulation of a full
// disk.
//
// Threads: for the test's main thread; FileSizeLimit changes a limit of the whole process.
#ifndef DING_WORKER_BASE_FILE_TESTING_H_
#define DING_WORKER_BASE_FILE_TESTING_H_

#include <sys/resource.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/file.h"
#include "gtest/gtest.h"

namespace ding {

// Makes a new, empty folder for the current test, in place of an old one, and returns its path.
inline std::string FreshTestFolder() {
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  std::string folder =
      JoinPath(testing::TempDir(), absl::StrCat(test.test_suite_name(), ".", test.name()));
  DING_CHECK(RemoveRecursively(folder).ok() && CreateNewDirectory(folder).ok()) << folder;
  return folder;
}

// Replaces a file without waiting for the disk, for tests that damage a file thousands of times.
inline void OverwriteFile(const std::string& path, absl::string_view content) {
  std::remove(path.c_str());  // ext4 waits for the disk when a file is truncated instead.
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  DING_CHECK(file.flush().good()) << path;
}

// While it lives, no file of this process can grow beyond `bytes`: writes fail as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &old_limit_);
    const rlimit limit = {bytes, old_limit_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
    old_handler_ = std::signal(SIGXFSZ, SIG_IGN);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &old_limit_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_limit_;
  void (*old_handler_)(int);
};

}  // namespace ding

#endif  // DING_WORKER_BASE_FILE_TESTING_H_
