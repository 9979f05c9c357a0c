#include "ding_worker/worker/testing/benchmark_parts.h"

#include <cstdlib>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/log.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "ding_worker/worker/config/experiment_config.h"

namespace ding {
namespace {

std::string MakeTemporaryFolder() {
  const char* const parent = std::getenv("TEST_TMPDIR");
  std::string path = JoinPath(parent == nullptr ? "/tmp" : parent, "cartpole_XXXXXX");
  DING_CHECK(mkdtemp(path.data()) != nullptr) << "no temporary folder " << path;
  return path;
}

void Check(const absl::Status& status) { DING_CHECK(status.ok()) << status; }

std::unique_ptr<Mlp> MakeNetwork(const SpecPtr& obs, const FieldSpec& output) {
  MlpOptions options;
  options.encoder_hidden_size = {64, 64};
  options.activation = MlpOptions::Activation::kTanh;
  options.head_layer_num = 0;
  return *Mlp::Create(options, obs, *MakeSpec({output}), 0);
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

BareNetwork::BareNetwork(int64_t envs, int64_t obs_size, const FieldSpec& output)
    : envs_(envs),
      obs_(*MakeSpec({Box("obs", {obs_size})})),
      input_(MakeObservationBatch(obs_, kMinibatchRows, 1)),
      network_(MakeNetwork(obs_, output)),
      output_(*BatchBuilder::Create(network_->output_spec(), kMinibatchRows)),
      d_output_(*BatchBuilder::Create(network_->output_spec(), kMinibatchRows)) {
  for (float& value : d_output_.column<float>(0)) value = 0.01f;
}

void BareNetwork::Infer() { Check(network_->Infer(input_.view().Slice(0, envs_), output_.view())); }

void BareNetwork::ForwardBackward() {
  Check(network_->Forward(input_.view(), output_.view()));
  Check(network_->Backward(d_output_.view()));
}

}  // namespace ding
