#include "ding_worker/worker/testing/cartpole_pipeline.h"

#include <cstdlib>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/log.h"
#include "ding_worker/worker/config/experiment_config.h"

namespace ding {
namespace {

std::string MakeTemporaryFolder() {
  const char* const parent = std::getenv("TEST_TMPDIR");
  std::string path = JoinPath(parent == nullptr ? "/tmp" : parent, "cartpole_XXXXXX");
  DING_CHECK(mkdtemp(path.data()) != nullptr) << "no temporary folder " << path;
  return path;
}

}  // namespace

ExperimentConfig LoadCartPoleConfig(const std::vector<std::string>& settings) {
  absl::StatusOr<ExperimentConfig> config = LoadExperimentConfig(kCartPoleConfig, settings);
  DING_CHECK(config.ok()) << config.status();
  return *std::move(config);
}

CartPolePipeline::CartPolePipeline(const ExperimentConfig& config,
                                   std::shared_ptr<MetricSink> metrics)
    : folder_(MakeTemporaryFolder()) {
  SetMinLogSeverity(LogSeverity::kWarning);
  SerialOptions options;
  options.exp_dir = folder_;
  options.metrics = std::move(metrics);
  absl::StatusOr<std::unique_ptr<SerialPipeline>> pipeline =
      SerialPipeline::Create(config, options);
  DING_CHECK(pipeline.ok()) << pipeline.status();
  pipeline_ = *std::move(pipeline);
}

CartPolePipeline::~CartPolePipeline() {
  pipeline_.reset();
  const absl::Status removed = RemoveRecursively(folder_);
  DING_CHECK(removed.ok()) << removed;
}

void CartPolePipeline::FillBuffer(int64_t rows) {
  CollectOptions options;
  options.target = rows;
  options.policy_settings = {{"eps", 1}};
  const absl::StatusOr<SegmentBatch> data = pipeline_->collector()->Collect(options);
  DING_CHECK(data.ok()) << data.status();
  const absl::Status pushed = pipeline_->buffer()->Push(*data, 0);
  DING_CHECK(pushed.ok()) << pushed;
}

}  // namespace ding
