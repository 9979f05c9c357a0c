#include "ding_worker/worker/testing/saved_formats.h"

#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/replay_buffer/testing/saved_state.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "ding_worker/worker/testing/child_program.h"

namespace ding {

std::string FixturePath(const std::string& file) {
  return JoinPath("worker/testing/formats", file);
}

std::vector<double> ExpectedOf(const std::string& key) {
  const std::string text = ReadFile(FixturePath("expected.txt")).value();
  std::vector<double> values;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    double value = 0;
    if (words.size() != 2 || words[0] != key) continue;
    DING_CHECK(absl::SimpleAtod(words[1], &value)) << line;
    values.push_back(value);
  }
  DING_CHECK(!values.empty()) << "expected.txt has no " << key;
  return values;
}

std::string UnpackRun(const std::string& name, const std::string& folder) {
  ChildProgram tar("/bin/tar", {"-xzf", FixturePath(absl::StrCat(name, ".tar.gz")), "-C", folder},
                   JoinPath(folder, absl::StrCat("tar_", name)), {});
  DING_CHECK(tar.Wait(absl::Minutes(2)) == 0) << tar.err();
  return JoinPath(folder, name);
}

void ReplaceInFile(const std::string& path, const std::string& from, const std::string& to) {
  DING_CHECK(from.size() == to.size());
  std::string text = ReadFile(path).value();
  const size_t at = text.find(from);
  DING_CHECK(at != std::string::npos) << path << " has no '" << from << "'";
  text.replace(at, from.size(), to);
  const absl::Status written = WriteFileAtomically(path, text);
  DING_CHECK(written.ok()) << written;
}

std::unique_ptr<IBuffer> EmptyFixtureBuffer(const BufferType& type) {
  BufferSettings settings;
  settings.capacity_rows = 40;
  return type.make(settings);
}

void FillFixtureBuffer(IBuffer* buffer) {
  TestStreams streams;
  for (int64_t i = 0; i < 6; ++i) {
    const SegmentEnd end = i % 2 == 0 ? SegmentEnd::kCut : SegmentEnd::kTerminated;
    const absl::Status pushed = buffer->Push(streams.Make({{0, 6, end}, {1, 4, end}}), i);
    DING_CHECK(pushed.ok()) << pushed;
  }
}

absl::StatusOr<int64_t> CountDrawnRows(IBuffer* buffer) {
  DING_ASSIGN_OR_RETURN(const Batch batch, buffer->Sample(buffer->count(), /*cur_learner_iter=*/0));
  DING_RETURN_IF_ERROR(CheckRows(batch));
  DING_ASSIGN_OR_RETURN(const int field, batch.spec().IndexOf("obs/place", "a draw"));
  std::set<std::pair<float, float>> places;  // stream and step
  for (int64_t row = 0; row < batch.rows(); ++row) {
    const float* const place = batch.column<float>(field).data() + 4 * row;
    places.emplace(place[0], place[1]);
  }
  return static_cast<int64_t>(places.size());
}

std::string FixtureFile(const BufferType& type) {
  return absl::StrCat("buffer_", type.name, ".safetensors");
}

}  // namespace ding
