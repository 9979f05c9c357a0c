// Measures SaveData and LoadData of a full buffer against writing and reading as many bytes, and
// the memory that they take in addition to the buffer.
//
//   SaveImages, SaveVectors            save rows of 28 kB or 36 bytes to a file, flushed to disk
//   SaveImagesBaseline, SaveVectorsBaseline  write as many bytes in pieces of 1 MB, flushed to disk
//   LoadImages, LoadVectors            load into a new buffer; the file is in the page cache
//   LoadImagesBaseline, LoadVectorsBaseline  read as many bytes in pieces of 1 MB into new memory
//
// extra_MB is the largest growth of resident memory beyond the rows themselves; it should be below
// 64. The environment variable DING_BENCHMARK_MB sets the size of the buffer; the default is 256.
#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/file.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/replay_buffer/buffer_file.h"
#include "ding_worker/replay_buffer/naive_buffer.h"

namespace ding {
namespace {

constexpr int64_t kMegabyte = 1000000;
constexpr int64_t kPieceBytes = int64_t{1} << 20;
constexpr int64_t kLinkBytes = 4;

void Check(const absl::Status& status) { DING_CHECK(status.ok()) << status; }

int64_t ContentBytes() {
  const char* const text = std::getenv("DING_BENCHMARK_MB");
  int64_t megabytes = 256;
  DING_CHECK(text == nullptr || absl::SimpleAtoi(text, &megabytes)) << text;
  return megabytes * kMegabyte;
}

FieldSpec Image() {
  FieldSpec field = Scalar("obs", DType::kUint8);
  field.shape = {4, 84, 84};
  return field;
}
FieldSpec Vector() { return Box("obs", {4}); }

SpecPtr RowsOf(const FieldSpec& obs) {
  return MakeSpec({obs, Discrete("action", 2), Scalar("reward", DType::kFloat32),
                   Scalar("collect_iter", DType::kInt64)})
      .value();
}

int64_t RowsFor(const FieldSpec& obs) { return ContentBytes() / RowsOf(obs)->row_bytes(); }

std::unique_ptr<NaiveReplayBuffer> MakeBuffer(const FieldSpec& obs) {
  NaiveReplayBuffer::Options options;
  options.capacity_rows = RowsFor(obs);
  return NaiveReplayBuffer::Create(options).value();
}

Batch Touched(const SpecPtr& spec, int64_t rows) {
  BatchBuilder builder = BatchBuilder::Create(spec, rows).value();
  for (int i = 0; i < spec->size(); ++i) {
    std::memset(builder.view().raw_column(i), i + 1,
                static_cast<size_t>(rows * spec->row_bytes(i)));
  }
  return std::move(builder).Seal(rows);
}

// Returns a buffer full of rows of eight streams in turn, as eight envs would push them.
std::unique_ptr<NaiveReplayBuffer> FullBuffer(const FieldSpec& obs) {
  auto buffer = MakeBuffer(obs);
  SegmentBatch push;
  push.rows = Touched(RowsOf(obs), 8);
  push.final_obs = Touched(MakeSpec({obs}).value(), 8);
  for (int64_t stream = 0; stream < 8; ++stream) {
    push.segments.push_back({stream, 0, stream, 1, SegmentEnd::kCut});
  }
  for (int64_t rows = 0; rows < RowsFor(obs); rows += 8) {
    Check(buffer->Push(push, 0));
    for (Segment& segment : push.segments) ++segment.first_step;
  }
  return buffer;
}

// A folder that the destructor removes with its content.
class ScratchFolder {
 public:
  ScratchFolder() {
    const char* const parent = std::getenv("TEST_TMPDIR");
    path_ = JoinPath(parent == nullptr ? "/tmp" : parent, "buffer_file_benchmark_XXXXXX");
    DING_CHECK(mkdtemp(path_.data()) != nullptr) << path_;
  }
  ~ScratchFolder() { Check(RemoveRecursively(path_)); }
  std::string file() const { return JoinPath(path_, "buffer.safetensors"); }

 private:
  std::string path_;
};

// Returns a value of /proc/self/status in bytes.
int64_t MemoryOf(absl::string_view name) {
  const std::string status = ReadFile("/proc/self/status").value();
  for (const absl::string_view line : absl::StrSplit(status, '\n')) {
    std::pair<absl::string_view, absl::string_view> field = absl::StrSplit(line, ':');
    if (field.first != name) continue;
    int64_t kilobytes = 0;
    field.second.remove_suffix(absl::string_view(" kB").size());
    DING_CHECK(absl::SimpleAtoi(field.second, &kilobytes)) << line;
    return kilobytes * 1024;
  }
  DING_CHECK(false) << "no " << name << " in /proc/self/status";
  return 0;
}

// Measures the largest growth of resident memory.
class PeakMemory {
 public:
  PeakMemory() {
    malloc_trim(0);  // Memory that was freed before must not be used again.
    before_ = MemoryOf("VmRSS");
    const int fd = open("/proc/self/clear_refs", O_WRONLY);
    DING_CHECK(fd >= 0 && write(fd, "5", 1) == 1) << "the peak cannot be reset";
    close(fd);
  }
  int64_t growth() const { return MemoryOf("VmHWM") - before_; }

 private:
  int64_t before_;
};

void Report(benchmark::State& state, const FieldSpec& obs, int64_t extra_bytes) {
  state.SetBytesProcessed(state.iterations() * RowsFor(obs) * RowsOf(obs)->row_bytes());
  state.counters["extra_MB"] = static_cast<double>(extra_bytes) / kMegabyte;
}

void Save(benchmark::State& state, const FieldSpec& obs) {
  const ScratchFolder folder;
  const auto buffer = FullBuffer(obs);
  int64_t extra_bytes = 0;
  for (auto _ : state) {
    const PeakMemory peak;
    Check(SaveData(*buffer, folder.file()));
    extra_bytes = std::max(extra_bytes, peak.growth());
  }
  Report(state, obs, extra_bytes);
}

void WritePieces(const FieldSpec& obs, const std::string& path) {
  const std::string piece(kPieceBytes, 'x');
  const std::unique_ptr<AtomicFileWriter> file = AtomicFileWriter::Create(path).value();
  int64_t left = RowsFor(obs) * RowsOf(obs)->row_bytes();
  for (; left > 0; left -= kPieceBytes) {
    Check(file->Append(absl::string_view(piece).substr(0, static_cast<size_t>(left))));
  }
  Check(file->Commit());
}

void SaveBaseline(benchmark::State& state, const FieldSpec& obs) {
  const ScratchFolder folder;
  for (auto _ : state) WritePieces(obs, folder.file());
  Report(state, obs, /*extra_bytes=*/0);
}

void Load(benchmark::State& state, const FieldSpec& obs) {
  const ScratchFolder folder;
  Check(SaveData(*FullBuffer(obs), folder.file()));
  const int64_t content_bytes = RowsFor(obs) * (RowsOf(obs)->row_bytes() + kLinkBytes);
  int64_t extra_bytes = 0;
  for (auto _ : state) {
    const PeakMemory peak;
    const auto buffer = MakeBuffer(obs);
    Check(LoadData(buffer.get(), folder.file()));
    extra_bytes = std::max(extra_bytes, peak.growth() - content_bytes);
  }
  Report(state, obs, extra_bytes);
}

void LoadBaseline(benchmark::State& state, const FieldSpec& obs) {
  const ScratchFolder folder;
  WritePieces(obs, folder.file());
  for (auto _ : state) {
    const auto file = RandomAccessFile::Open(folder.file()).value();
    const std::shared_ptr<std::byte> memory = AllocateAligned(file->size_bytes());
    for (int64_t at = 0; at < file->size_bytes(); at += kPieceBytes) {
      const int64_t size = std::min(kPieceBytes, file->size_bytes() - at);
      Check(file->ReadAt(at, absl::MakeSpan(reinterpret_cast<char*>(memory.get()) + at,
                                            static_cast<size_t>(size))));
    }
  }
  Report(state, obs, /*extra_bytes=*/0);
}

void SaveImages(benchmark::State& state) { Save(state, Image()); }
void SaveImagesBaseline(benchmark::State& state) { SaveBaseline(state, Image()); }
void SaveVectors(benchmark::State& state) { Save(state, Vector()); }
void SaveVectorsBaseline(benchmark::State& state) { SaveBaseline(state, Vector()); }
void LoadImages(benchmark::State& state) { Load(state, Image()); }
void LoadImagesBaseline(benchmark::State& state) { LoadBaseline(state, Image()); }
void LoadVectors(benchmark::State& state) { Load(state, Vector()); }
void LoadVectorsBaseline(benchmark::State& state) { LoadBaseline(state, Vector()); }

BENCHMARK(SaveImagesBaseline)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(SaveImages)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(SaveVectorsBaseline)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(SaveVectors)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(LoadImagesBaseline)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(LoadImages)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(LoadVectorsBaseline)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(LoadVectors)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace ding
