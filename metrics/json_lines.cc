#include "ding_worker/metrics/json_lines.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/utf8.h"
#include "ding_worker/metrics/event_log.h"
#include "ding_worker/metrics/file_sink.h"
#include "nlohmann/json.hpp"

namespace ding {
namespace {

using ::ding::internal_metrics::AppendFile;
using Json = nlohmann::ordered_json;

// Numbers that are not finite become null.
std::string Print(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string TagAndStep(absl::string_view tag, int64_t step) {
  return absl::StrCat("\"tag\":", Print(PrintableUtf8(tag)), ",\"step\":", step);
}

}  // namespace

absl::StatusOr<std::unique_ptr<JsonLinesSink>> JsonLinesSink::Create(const Options& options) {
  AppendFile::Options file_options;
  file_options.clock = options.clock;
  file_options.flush_interval = options.flush_interval;
  file_options.record_end = '\n';
  DING_ASSIGN_OR_RETURN(auto file, AppendFile::Open(options.path, file_options));
  return std::unique_ptr<JsonLinesSink>(new JsonLinesSink(options.clock, std::move(file)));
}

JsonLinesSink::JsonLinesSink(const Clock* clock, std::unique_ptr<AppendFile> file)
    : clock_(clock), file_(std::move(file)) {}

void JsonLinesSink::Scalar(absl::string_view tag, int64_t step, double value) {
  Append(absl::StrCat(TagAndStep(tag, step), ",\"value\":", Print(value)));
}

void JsonLinesSink::Histogram(absl::string_view tag, int64_t step, absl::Span<const float> values) {
  if (values.empty()) return;
  const HistogramSummary summary = Summarize(values, /*bucket_count=*/1);
  std::string members = absl::StrCat(TagAndStep(tag, step), ",\"count\":", summary.count);
  if (summary.count > 0) {
    absl::StrAppend(&members, ",\"mean\":", Print(summary.Mean()),
                    ",\"std\":", Print(summary.StandardDeviation()),
                    ",\"min\":", Print(summary.min), ",\"max\":", Print(summary.max));
  }
  Append(absl::StrCat(members, ",\"non_finite\":", summary.non_finite_count));
}

void JsonLinesSink::Text(absl::string_view tag, int64_t step, absl::string_view text) {
  Append(absl::StrCat(TagAndStep(tag, step), ",\"text\":", Print(std::string(text))));
}

void JsonLinesSink::BeginRun(const RunDescription& run) {
  Json hyperparameters = Json::object();
  for (const auto& [name, value] : run.hyperparameters) {
    hyperparameters[PrintableUtf8(name)] = PrintableUtf8(value);
  }
  Append(absl::StrCat("\"begin\":", Print(PrintableUtf8(run.name)),
                      ",\"hyperparameters\":", Print(hyperparameters)));
}

void JsonLinesSink::EndRun(RunEnd end, int64_t step, const RunResults& results) {
  Json values = Json::object();
  for (const auto& [name, value] : results) values[PrintableUtf8(name)] = value;
  Append(absl::StrCat("\"end\":\"", NameOf(end), "\",\"step\":", step,
                      ",\"results\":", Print(values)));
}

absl::Status JsonLinesSink::Flush() {
  MutexLock lock(&mutex_);
  return file_->Flush();
}

void JsonLinesSink::Append(absl::string_view members) {
  const double time = 1e-3 * static_cast<double>(absl::ToUnixMillis(clock_->Now()));
  const std::string line = absl::StrFormat("{\"time\":%.3f,%s}\n", time, members);
  MutexLock lock(&mutex_);
  file_->Append(line);
}

}  // namespace ding
