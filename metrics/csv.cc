#include "ding_worker/metrics/csv.h"

#include <charconv>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/utf8.h"
#include "ding_worker/metrics/file_sink.h"

namespace ding {
namespace {

using ::ding::internal_metrics::AppendFile;

std::string Quoted(absl::string_view tag) {
  const std::string field = PrintableUtf8(tag, /*keep=*/"\r\n");
  if (field.find_first_of(",\"\r\n") == std::string::npos) return field;
  return absl::StrCat("\"", absl::StrReplaceAll(field, {{"\"", "\"\""}}), "\"");
}

std::string ShortestDecimal(double value) {
  if (value != value) return "nan";  // to_chars() would print a sign for some NaNs.
  char digits[32];
  return std::string(digits, std::to_chars(digits, digits + sizeof(digits), value).ptr);
}

}  // namespace

absl::StatusOr<std::unique_ptr<CsvSink>> CsvSink::Create(const Options& options) {
  AppendFile::Options file_options;
  file_options.clock = options.clock;
  file_options.flush_interval = options.flush_interval;
  file_options.record_end = '\n';
  DING_ASSIGN_OR_RETURN(auto file, AppendFile::Open(options.path, file_options));
  if (file->empty()) file->Append("step,tag,value,wall_time\n");
  return std::unique_ptr<CsvSink>(new CsvSink(options.clock, std::move(file)));
}

CsvSink::CsvSink(const Clock* clock, std::unique_ptr<AppendFile> file)
    : clock_(clock), file_(std::move(file)) {}

void CsvSink::Scalar(absl::string_view tag, int64_t step, double value) {
  const std::string line =
      absl::StrFormat("%d,%s,%s,%.3f\n", step, Quoted(tag), ShortestDecimal(value),
                      1e-3 * static_cast<double>(absl::ToUnixMillis(clock_->Now())));
  MutexLock lock(&mutex_);
  file_->Append(line);
}

void CsvSink::Histogram(absl::string_view tag, int64_t step, absl::Span<const float> values) {
  if (values.empty()) return;
  const HistogramSummary summary = Summarize(values, /*bucket_count=*/1);
  std::vector<std::pair<absl::string_view, double>> statistics;
  statistics.emplace_back("count", summary.count);
  if (summary.count > 0) {
    statistics.emplace_back("mean", summary.Mean());
    statistics.emplace_back("std", summary.StandardDeviation());
    statistics.emplace_back("min", summary.min);
    statistics.emplace_back("max", summary.max);
  }
  if (summary.non_finite_count > 0) {
    statistics.emplace_back("non_finite", summary.non_finite_count);
  }
  Scalars(this, tag, step, statistics);
}

absl::Status CsvSink::Flush() {
  MutexLock lock(&mutex_);
  return file_->Flush();
}

}  // namespace ding
