// Measures how values are handed over through a folder of /dev/shm (or of DING_BENCHMARK_FOLDER),
// compared with bare files.
//
//   PutGetDelete/bytes       a value is put in three pieces, got into the same string, deleted
//   PutGetDeleteFloor/bytes  the same with write, read and unlink of a file: no rename, no checksum
//   CopyTwice/bytes          the same bytes copied to and from memory: the cost of the two copies
//                            alone
//   PutGetDeleteLz4/bytes    values of which half is zero, compressed
//
// The store is a part of the path of a chunk, which must reach more than 500 MB/s at 64 KiB in all.
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/file.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/store/store_registry.h"

namespace ding {
namespace {

void Check(const absl::Status& status) { DING_CHECK(status.ok()) << status; }

// A folder that is removed with its contents at the end of the scope.
class ScratchFolder {
 public:
  ScratchFolder() {
    const char* const parent = std::getenv("DING_BENCHMARK_FOLDER");
    path_ = JoinPath(parent == nullptr ? "/dev/shm" : parent, "file_store_benchmark_XXXXXX");
    DING_CHECK(mkdtemp(path_.data()) != nullptr) << path_;
  }
  ~ScratchFolder() { Check(RemoveRecursively(path_)); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string Value(int64_t size) {
  std::string value(static_cast<size_t>(size), '\0');
  uint32_t random = 1;
  for (size_t i = 0; i < value.size() / 2; ++i) {
    random = random * 1664525 + 1013904223;
    value[i] = static_cast<char>(random >> 24);
  }
  return value;
}

void PutGetDeleteIn(benchmark::State& state, absl::string_view settings) {
  const ScratchFolder folder;
  const auto store = create_store(absl::StrCat("file:", folder.path(), settings)).value();
  const std::string value = Value(state.range(0));
  const absl::string_view all = value;
  std::string read;
  for (auto _ : state) {
    Check(store->Put("data/1/2", {all.substr(0, 100), all.substr(100, all.size() / 2),
                                  all.substr(100 + all.size() / 2)}));
    Check(store->Get("data/1/2", &read));
    Check(store->Delete("data/1/2"));
  }
  DING_CHECK(read == value);
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void PutGetDelete(benchmark::State& state) {
  PutGetDeleteIn(state, "");
  state.SetLabel("aim=0.5");
}
void PutGetDeleteLz4(benchmark::State& state) { PutGetDeleteIn(state, "?compress=lz4"); }

void PutGetDeleteFloor(benchmark::State& state) {
  const ScratchFolder folder;
  const std::string path = JoinPath(folder.path(), "file");
  const std::string value = Value(state.range(0));
  std::string read(value.size(), '\0');
  for (auto _ : state) {
    int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0644);
    DING_CHECK(::write(fd, value.data(), value.size()) == state.range(0));
    close(fd);
    fd = open(path.c_str(), O_RDONLY);
    DING_CHECK(::read(fd, &read[0], read.size()) == state.range(0));
    close(fd);
    unlink(path.c_str());
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void CopyTwice(benchmark::State& state) {
  const std::string value = Value(state.range(0));
  std::string there(value.size(), '\0');
  std::string back(value.size(), '\0');
  for (auto _ : state) {
    std::memcpy(&there[0], value.data(), value.size());
    benchmark::ClobberMemory();
    std::memcpy(&back[0], there.data(), there.size());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

BENCHMARK(PutGetDeleteFloor)->Arg(4 << 10)->Arg(64 << 10);
BENCHMARK(PutGetDelete)->Arg(4 << 10)->Arg(64 << 10);
BENCHMARK(PutGetDeleteLz4)->Arg(4 << 10)->Arg(64 << 10);
BENCHMARK(CopyTwice)->Arg(4 << 10)->Arg(64 << 10);

}  // namespace
}  // namespace ding
