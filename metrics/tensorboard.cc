#include "ding_worker/metrics/tensorboard.h"

#include <unistd.h>

#include <atomic>
#include <climits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "ding_worker/base/crc32c.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/utf8.h"
#include "ding_worker/metrics/file_sink.h"
#include "ding_worker/metrics/tensorboard.pb.h"

namespace ding {
namespace {

using ::ding::internal_metrics::AppendFile;
using ::ding::tensorboard::Event;
using ::ding::tensorboard::HistogramProto;
using ::ding::tensorboard::HParamsPluginData;
using ::ding::tensorboard::HParamValue;
using ::ding::tensorboard::SessionEndInfo;
using ::ding::tensorboard::SessionStartInfo;
using ::ding::tensorboard::Summary;
using ::ding::tensorboard::TensorProto;

std::string HostName() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, HOST_NAME_MAX) == 0 && name[0] != '\0' ? name : "localhost";
}

// The seconds have a fixed width, because TensorBoard orders the files of a folder by name.
std::string EventFileName(absl::Time now) {
  static std::atomic<int> files{0};
  return absl::StrFormat("events.out.tfevents.%010d.%s.%d.%d", absl::ToUnixSeconds(now), HostName(),
                         getpid(), files.fetch_add(1));
}

double UnixSeconds(absl::Time time) { return absl::ToDoubleSeconds(time - absl::UnixEpoch()); }

template <typename Integer>
void AppendLittleEndian(Integer value, std::string* out) {
  for (size_t byte = 0; byte < sizeof(value); ++byte) {
    out->push_back(static_cast<char>(value >> (8 * byte)));
  }
}

// Applies TFRecord's mask, which avoids trivial checksums of data that has checksums in it.
uint32_t MaskedCrc32c(absl::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

std::string FrameRecord(absl::string_view data) {
  std::string record;
  record.reserve(data.size() + 16);
  AppendLittleEndian(static_cast<uint64_t>(data.size()), &record);
  AppendLittleEndian(MaskedCrc32c(record), &record);
  absl::StrAppend(&record, data);
  AppendLittleEndian(MaskedCrc32c(data), &record);
  return record;
}

Event MakeEvent(const Clock& clock, int64_t step) {
  Event event;
  event.set_wall_time(UnixSeconds(clock.Now()));
  event.set_step(step);
  return event;
}

Summary::Value* AddValue(absl::string_view tag, Event* event) {
  Summary::Value* const value = event->mutable_summary()->add_value();
  value->set_tag(PrintableUtf8(tag));
  return value;
}

void FillHistogram(const HistogramSummary& summary, HistogramProto* histo) {
  histo->set_min(summary.min);
  histo->set_max(summary.max);
  histo->set_num(static_cast<double>(summary.count));
  histo->set_sum(summary.sum);
  histo->set_sum_squares(summary.sum_squares);
  histo->mutable_bucket_limit()->Add(summary.limits.begin(), summary.limits.end());
  histo->mutable_bucket()->Add(summary.counts.begin(), summary.counts.end());
}

constexpr absl::string_view kResultGroup = "result/";

// Returns a number, a truth value, or text without its quotes.
HParamValue ValueOf(absl::string_view text) {
  HParamValue value;
  if (double number = 0; absl::SimpleAtod(text, &number)) {
    value.set_number_value(number);
  } else if (text == "true" || text == "false") {
    value.set_bool_value(text == "true");
  } else {
    const bool quoted = text.size() >= 2 && text.front() == '"' && text.back() == '"';
    value.set_string_value(PrintableUtf8(quoted ? text.substr(1, text.size() - 2) : text));
  }
  return value;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TensorBoardSink>> TensorBoardSink::Create(const Options& options) {
  DING_RETURN_IF_ERROR(CreateDirectories(options.folder));
  const std::string name =
      options.file_name.empty() ? EventFileName(options.clock->Now()) : options.file_name;
  std::string path = JoinPath(options.folder, name);
  AppendFile::Options file_options;
  file_options.clock = options.clock;
  file_options.flush_interval = options.flush_interval;
  DING_ASSIGN_OR_RETURN(auto file, AppendFile::Open(path, file_options));
  std::unique_ptr<TensorBoardSink> sink(
      new TensorBoardSink(std::move(path), options.clock, std::move(file)));
  Event version = MakeEvent(*options.clock, 0);
  version.set_file_version("brain.Event:2");
  sink->WriteRecord(version.SerializeAsString());
  return sink;
}

TensorBoardSink::TensorBoardSink(std::string path, const Clock* clock,
                                 std::unique_ptr<AppendFile> file)
    : path_(std::move(path)), clock_(clock), file_(std::move(file)) {}

void TensorBoardSink::Scalar(absl::string_view tag, int64_t step, double value) {
  Event event = MakeEvent(*clock_, step);
  AddValue(tag, &event)->set_simple_value(static_cast<float>(value));
  WriteRecord(event.SerializeAsString());
}

void TensorBoardSink::Histogram(absl::string_view tag, int64_t step,
                                absl::Span<const float> values) {
  if (values.empty()) return;
  const HistogramSummary summary = Summarize(values);
  Event event = MakeEvent(*clock_, step);
  if (summary.count > 0) FillHistogram(summary, AddValue(tag, &event)->mutable_histo());
  if (summary.non_finite_count > 0) {
    AddValue(absl::StrCat(tag, "_non_finite"), &event)
        ->set_simple_value(static_cast<float>(summary.non_finite_count));
  }
  WriteRecord(event.SerializeAsString());
}

void TensorBoardSink::Text(absl::string_view tag, int64_t step, absl::string_view text) {
  Event event = MakeEvent(*clock_, step);
  Summary::Value* const value = AddValue(tag, &event);
  value->mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  TensorProto* const tensor = value->mutable_tensor();
  tensor->set_dtype(tensorboard::DT_STRING);
  tensor->mutable_tensor_shape()->add_dim()->set_size(1);
  tensor->add_string_val(PrintableUtf8(text, "\n\r\t"));
  WriteRecord(event.SerializeAsString());
}

void TensorBoardSink::EncodedImage(absl::string_view tag, int64_t step, int width, int height,
                                   absl::string_view file) {
  Event event = MakeEvent(*clock_, step);
  Summary::Image* const image = AddValue(tag, &event)->mutable_image();
  image->set_width(width);
  image->set_height(height);
  image->set_colorspace(3);
  image->set_encoded_image_string(std::string(file));
  WriteRecord(event.SerializeAsString());
}

void TensorBoardSink::BeginRun(const RunDescription& run) {
  HParamsPluginData session;
  SessionStartInfo* const info = session.mutable_session_start_info();
  info->set_start_time_secs(UnixSeconds(clock_->Now()));
  for (const auto& [name, value] : run.hyperparameters) {
    (*info->mutable_hparams())[PrintableUtf8(name)] = ValueOf(value);
  }
  WriteHParams("_hparams_/session_start_info", session);
}

void TensorBoardSink::EndRun(RunEnd end, int64_t step, const RunResults& results) {
  for (const auto& [name, value] : results) Scalar(absl::StrCat(kResultGroup, name), step, value);
  HParamsPluginData session;
  SessionEndInfo* const info = session.mutable_session_end_info();
  info->set_status(end == RunEnd::kFailed ? SessionEndInfo::FAILURE : SessionEndInfo::SUCCESS);
  info->set_end_time_secs(UnixSeconds(clock_->Now()));
  WriteHParams("_hparams_/session_end_info", session);
}

// The value itself is an empty tensor, as the dashboard's own writer has it.
void TensorBoardSink::WriteHParams(absl::string_view tag, const HParamsPluginData& data) {
  Event event = MakeEvent(*clock_, 0);
  Summary::Value* const value = AddValue(tag, &event);
  tensorboard::SummaryMetadata::PluginData* const plugin =
      value->mutable_metadata()->mutable_plugin_data();
  plugin->set_plugin_name("hparams");
  plugin->set_content(data.SerializeAsString());
  value->mutable_tensor()->set_dtype(tensorboard::DT_FLOAT);
  value->mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(0);
  WriteRecord(event.SerializeAsString());
}

absl::Status TensorBoardSink::Flush() {
  MutexLock lock(&mutex_);
  return file_->Flush();
}

void TensorBoardSink::WriteRecord(absl::string_view event) {
  const std::string record = FrameRecord(event);
  MutexLock lock(&mutex_);
  file_->Append(record);
}

}  // namespace ding
