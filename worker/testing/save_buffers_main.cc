// Saves a buffer of each type into a folder, and prints what is known about it, for
// worker/testing/make_format_fixtures.

#include <cstdint>
#include <cstdio>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/file.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/buffer_file.h"
#include "ding_worker/replay_buffer/testing/buffer_types.h"
#include "ding_worker/worker/testing/saved_formats.h"

namespace ding {
namespace {

int Main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "expected a folder\n");
    return 1;
  }
  for (const BufferType& type : BufferTypes()) {
    const std::unique_ptr<IBuffer> buffer = EmptyFixtureBuffer(type);
    FillFixtureBuffer(buffer.get());
    const absl::Status saved = SaveData(*buffer, JoinPath(argv[1], FixtureFile(type)));
    if (!saved.ok()) {
      std::fprintf(stderr, "%s\n", saved.ToString().c_str());
      return 1;
    }
    const absl::StatusOr<int64_t> rows = CountDrawnRows(buffer.get());
    if (!rows.ok()) {
      std::fprintf(stderr, "%s\n", rows.status().ToString().c_str());
      return 1;
    }
    std::printf("buffer_%s.rows %lld\n", type.name.c_str(), static_cast<long long>(*rows));
    std::printf("buffer_%s.count %lld\n", type.name.c_str(),
                static_cast<long long>(buffer->count()));
    std::printf("buffer_%s.push_count %lld\n", type.name.c_str(),
                static_cast<long long>(buffer->push_count()));
  }
  return 0;
}

}  // namespace
}  // namespace ding

int main(int argc, char** argv) { return ding::Main(argc, argv); }
